//! Leaderboards of several dimensions: the commands `ZLB.*`.
//!
//! ```
//! # fn main() -> Result<(), zeitset_client::Error> {
//! # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
//! # let mut connection = redis::Client::open(url)?.get_connection()?;
//! use zeitset_client::zlb::{self, Ranking};
//!
//! zlb::create("medals", ["gold", "silver"]).query(&mut connection)?;
//! zlb::set("medals", [("Japan", &[20, 12]), ("USA", &[40, 44])]).query(&mut connection)?;
//! let top = zlb::range("medals", 0, 9).entries(Ranking::Position).query(&mut connection)?;
//! assert_eq!((top[0].member.as_str(), top[0].rank), ("USA", 0));
//! # Ok(())
//! # }
//! ```

use super::{Call, items, next};
use redis::{FromRedisValue, ParsingError, ToRedisArgs, ToSingleRedisArg, Value, from_redis_value};

/// How members with equal values are ranked. Example: the ranks of four members, if the second and the third are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranking {
    /// 0, 1, 2, 3
    #[default]
    Position,
    /// 0, 1, 1, 3
    Competition,
    /// 0, 1, 1, 2
    Dense,
}

impl Ranking {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Position => &[],
            Self::Competition => &["COMPETITION"],
            Self::Dense => &["DENSE"],
        }
    }
}

/// A member of a board. `V` is the type of the values; [`Call::reply_as`] chooses another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<V = i64, S = String> {
    /// The rank, 0 for the best.
    pub rank: u64,
    /// The name of the member.
    pub member: S,
    /// The values, in the order of the dimensions.
    pub values: Vec<V>,
}

impl<V: FromRedisValue, S: FromRedisValue> FromRedisValue for Entry<V, S> {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let items = &mut items(reply)?;
        let (rank, member) = (next(items)?, next(items)?);
        Ok(Self { rank, member, values: items.map(from_redis_value).collect::<Result<_, _>>()? })
    }
}

/// The rank of a member, and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<V = i64> {
    /// The rank, 0 for the best. None: KEEP removed the member from the board.
    pub rank: Option<u64>,
    /// The values, in the order of the dimensions.
    pub values: Vec<V>,
}

impl<V: FromRedisValue> FromRedisValue for Ranked<V> {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let items = &mut items(reply)?;
        Ok(Self { rank: next(items)?, values: items.map(from_redis_value).collect::<Result<_, _>>()? })
    }
}

super::reply! { map
    /// The reply of ZLB.INFO.
    Info {
        /// The number of members.
        members: u64,
        /// The number of different tuples of values.
        distinct: u64,
        /// `first`, `last` or `name`.
        ties: String,
        /// The board keeps only this number of members.
        keep: Option<u64>,
        /// The dimensions, the most significant first.
        dimensions: Vec<Dimension>,
    }
}

/// A dimension of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The name of the dimension.
    pub name: String,
    /// `asc` or `desc`.
    pub direction: String,
    /// `int` or `float`.
    pub kind: String,
}

impl FromRedisValue for Dimension {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let mut fields = super::fields(reply)?;
        let mut field = |name| from_redis_value(fields.remove(name).unwrap_or(Value::Nil));
        Ok(Self { name: field("name")?, direction: field("direction")?, kind: field("type")? })
    }
}

commands! {
    Create new_create(key: text) -> () = "ZLB.CREATE" {
        > r#"zlb::create("scores", ["points"])"#
        /// Which of two members with equal values ranks first: `FIRST` (default), `LAST` or `NAME`.
        ties(rule: text = "NAME") = "TIES" > r#"zlb::create("names", ["points"])"#,
        /// The board keeps only the best `n` members.
        keep(n: u64 = 1000) = "KEEP" > r#"zlb::create("best", ["points"])"#,
    } + ["DIM" "ASC" "DESC" "INT" "FLOAT" "FIRST" "LAST" "NAME"]
    /// Removes all members, and keeps the schema. Returns how many.
    > "zlb::create(\"yesterday\", [\"points\"]).query(&mut redis)?;\nlet removed: u64 = zlb::clear(\"yesterday\").query(&mut redis)?;"
    pub Clear clear(key: text) -> u64 = "ZLB.CLEAR"
    Set new_set(key: text) -> u64 = "ZLB.SET" {
        > "zlb::create(\"goals\", [\"goals\"]).query(&mut redis)?;\nzlb::set(\"goals\", [(\"ann\", 3)])"
        /// Only adds new members.
        nx() = "NX",
        /// Only changes present members.
        xx() = "XX",
        /// Only sets values that are better than those of the member.
        best() = "BEST",
    } + ["WITHRANK"]
    Incr new_incr(key: text) -> Ranked = "ZLB.INCR" + ["WITHRANK"]
    /// Returns for each member its rank and values; None for a member that is not on the board.
    > r#"let found: Vec<Option<zlb::Ranked>> = zlb::get("league", &["ann", "bob"]).query(&mut redis)?;"#
    pub Get get(key: text, members: texts) -> Vec<Option<Ranked>> = "ZLB.GET"
    Rank new_rank(key: text, member: text) -> Option<u64> = "ZLB.RANK" + ["COMPETITION" "DENSE"]
    /// Returns the members from index `start` through `stop`, best first. -1 is the last member.
    > r#"let top: Vec<String> = zlb::range("league", 0, 9).query(&mut redis)?;"#
    pub Range range(key: text, start: i64, stop: i64) -> Vec<String> = "ZLB.RANGE" {
        > r#"zlb::range("league", 0, 9)"#
        /// The worst member is the first.
        rev() = "REV",
    } + ["WITHRANK" "DENSE" "COMPETITION" "WITHVALUES"]
    /// Returns a member with `radius` neighbours on either side; None if the member is not on the board.
    > r#"let near: Option<Vec<String>> = zlb::around("league", "ann", 2).query(&mut redis)?;"#
    pub Around around(key: text, member: text, radius: u64) -> Option<Vec<String>> = "ZLB.AROUND"
        + ["WITHRANK" "DENSE" "COMPETITION" "WITHVALUES"]
    Merge new_merge(destination: text, numkeys: u64; keys: texts) -> u64 = "ZLB.MERGE" + ["SUM" "BEST"]
    /// Removes members by rank. Returns how many.
    > "zlb::create(\"ladder\", [\"points\"]).query(&mut redis)?;\nlet removed: u64 = zlb::remrange(\"ladder\", 1000, -1).query(&mut redis)?;"
    pub RemRange remrange(key: text, start: i64, stop: i64) -> u64 = "ZLB.REMRANGE"
    /// Returns the rank that a new member with these values would get.
    > "zlb::create(\"laps\", [\"seconds ASC FLOAT\"]).query(&mut redis)?;\nlet rank: u64 = zlb::rankof(\"laps\", 71.5).query(&mut redis)?;"
    pub RankOf rankof(key: text, values: texts) -> u64 = "ZLB.RANKOF"
    /// Removes members. Returns how many.
    > "zlb::create(\"ladder\", [\"points\"]).query(&mut redis)?;\nlet removed: u64 = zlb::rem(\"ladder\", \"ann\").query(&mut redis)?;"
    pub Rem rem(key: text, members: texts) -> u64 = "ZLB.REM"
    /// Returns the number of members.
    > r#"let members: u64 = zlb::card("league").query(&mut redis)?;"#
    pub Card card(key: text) -> u64 = "ZLB.CARD"
    /// Returns the schema and the size of a board; None if there is no board.
    > "let info: Option<zlb::Info> = zlb::info(\"league\").query(&mut redis)?;\nlet dimensions: Vec<zlb::Dimension> = info.map(|info| info.dimensions).unwrap_or_default();"
    pub InfoCommand info(key: text) -> Option<Info> = "ZLB.INFO"
}

/// Creates a board. A dimension is a name, which a direction and a type may follow: `"gold"`, `"seconds ASC FLOAT"`.
///
#[doc = example!(r#"zlb::create("runs", ["wins", "seconds ASC FLOAT"]).keep(1000).query(&mut redis)?;"#)]
pub fn create<'a>(key: impl ToSingleRedisArg, dimensions: impl IntoIterator<Item = &'a str>) -> Call<Create, ()> {
    dimensions.into_iter().fold(new_create(key), |call, dimension| {
        dimension.split_whitespace().fold(call.with("DIM"), |call, word| call.with(word))
    })
}

/// Sets the values of members. Returns how many members are new on the board.
///
#[doc = example!("zlb::create(\"goals\", [\"goals\"]).query(&mut redis)?;\nlet new: u64 = zlb::set(\"goals\", [(\"ann\", 3), (\"bob\", 2)]).best().query(&mut redis)?;")]
pub fn set<M: ToSingleRedisArg, V: ToRedisArgs>(
    key: impl ToSingleRedisArg,
    members: impl IntoIterator<Item = (M, V)>,
) -> Call<Set, u64> {
    members.into_iter().fold(new_set(key), |call, (member, values)| call.then(member).then(values))
}

impl Call<Set, u64> {
    /// Also returns the rank of the member, if the call sets one member. Adds `WITHRANK`.
    ///
    #[doc = example!("zlb::create(\"wins\", [\"wins\"]).query(&mut redis)?;\nlet (new, rank) = zlb::set(\"wins\", [(\"ann\", 3)]).with_rank().query(&mut redis)?;")]
    pub fn with_rank(self) -> Call<Set, (u64, Option<u64>)> {
        self.with("WITHRANK").reply_as()
    }
}

/// Adds to values of a member. A member that is not on the board starts with zeros. Returns its rank and values.
///
#[doc = example!("zlb::create(\"points\", [\"points\"]).query(&mut redis)?;\nlet ann: zlb::Ranked = zlb::incr(\"points\", \"ann\", [(\"points\", 5)]).query(&mut redis)?;")]
pub fn incr<D: ToSingleRedisArg, V: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    member: impl ToSingleRedisArg,
    by: impl IntoIterator<Item = (D, V)>,
) -> Call<Incr, Ranked> {
    let call = new_incr(key).with("WITHRANK").then(member);
    by.into_iter().fold(call, |call, (dimension, value)| call.then(dimension).then(value))
}

/// Returns a member's rank, 0 for the best; None if the member is not on the board.
///
#[doc = example!(r#"let rank: Option<u64> = zlb::rank("league", "ann", zlb::Ranking::Dense).query(&mut redis)?;"#)]
pub fn rank(key: impl ToSingleRedisArg, member: impl ToSingleRedisArg, ranking: Ranking) -> Call<Rank, Option<u64>> {
    new_rank(key, member).with(ranking.words())
}

/// Writes the union of boards to `destination`. A member gets the sums of its values, or with `best` its better tuple.
///
#[doc = example!("zlb::create(\"monday\", [\"points\"]).query(&mut redis)?;\nlet members: u64 = zlb::merge(\"week\", &[\"monday\"], false).query(&mut redis)?;")]
pub fn merge(destination: impl ToSingleRedisArg, keys: impl ToRedisArgs, best: bool) -> Call<Merge, u64> {
    let count = keys.num_of_args() as u64;
    new_merge(destination, count, keys).then(if best { "BEST" } else { "SUM" })
}

impl Call<Range, Vec<String>> {
    /// Returns ranks and values, too. Adds `WITHRANK` and `WITHVALUES`.
    ///
    #[doc = example!(r#"let top: Vec<zlb::Entry> = zlb::range("league", 0, 9).entries(zlb::Ranking::Dense).query(&mut redis)?;"#)]
    pub fn entries(self, ranking: Ranking) -> Call<Range, Vec<Entry>> {
        self.with("WITHRANK").with(ranking.words()).with("WITHVALUES").reply_as()
    }
}

impl Call<Around, Option<Vec<String>>> {
    /// Returns ranks and values, too. Adds `WITHRANK` and `WITHVALUES`.
    ///
    #[doc = example!(r#"let near: Option<Vec<zlb::Entry>> = zlb::around("league", "ann", 2).entries(zlb::Ranking::Dense).query(&mut redis)?;"#)]
    pub fn entries(self, ranking: Ranking) -> Call<Around, Option<Vec<Entry>>> {
        self.with("WITHRANK").with(ranking.words()).with("WITHVALUES").reply_as()
    }
}
