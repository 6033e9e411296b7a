//! Leaderboards as they are in life. These read as examples; the results are the real ones.

use testkit::start;

/// The Olympic Games of Paris, 2024: gold, then silver, then bronze.
#[test]
fn a_medal_table() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE paris2024 DIM gold DIM silver DIM bronze TIES NAME");
    c.run("ZLB.SET paris2024 Australia 18 19 16 China 40 27 24 France 16 26 22 Germany 12 13 8");
    c.run("ZLB.SET paris2024 Great-Britain 14 22 29 Italy 12 13 15 Japan 20 12 13 Netherlands 15 7 12");
    c.run("ZLB.SET paris2024 South-Korea 13 9 10 USA 40 44 42");
    c.script(&[
        // As many gold medals, but more silver ones. Italy and Germany differ only in bronze.
        ("ZLB.RANGE paris2024 0 1 WITHVALUES", "[['USA' 40 44 42] ['China' 40 27 24]]"),
        ("ZLB.RANGE paris2024 -2 -1 WITHVALUES", "[['Italy' 12 13 15] ['Germany' 12 13 8]]"),
        ("ZLB.AROUND paris2024 Netherlands 1", "['France' 'Netherlands' 'Great-Britain']"),
        // One more gold medal would have taken the Netherlands past France? No: silver decides.
        ("ZLB.RANKOF paris2024 16 7 12", "5"),
        ("ZLB.RANK paris2024 France", "4"),
    ]);
    // Four teams with two bronze medals each share a place, and the places behind it are not given away.
    c.run("ZLB.SET paris2024 Albania 0 0 2 Grenada 0 0 2 Malaysia 0 0 2 Puerto-Rico 0 0 2 Peru 0 0 1 Zambia 0 0 1");
    c.script(&[
        ("ZLB.RANK paris2024 Albania COMPETITION", "10"),
        ("ZLB.RANK paris2024 Puerto-Rico COMPETITION", "10"),
        ("ZLB.RANK paris2024 Zambia COMPETITION", "14"),
        ("ZLB.RANK paris2024 Zambia DENSE", "11"),
        ("ZLB.RANGE paris2024 10 13", "['Albania' 'Grenada' 'Malaysia' 'Puerto-Rico']"),
    ]);
}

/// The last day of the Premier League, 13 May 2012: points, then goal difference, then goals.
#[test]
fn a_football_league() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE league DIM points DIM difference DIM goals");
    c.run("ZLB.SET league City 86 63 90 United 86 55 88 Arsenal 67 24 71");
    c.run("ZLB.SET league Tottenham 66 23 64 Newcastle 65 7 55 Chelsea 61 18 63");
    // After ninety minutes City are losing 1-2 at home to QPR. United have won 1-0 at Sunderland, and are champions.
    c.script(&[
        ("ZLB.INCR league City difference -1 goals 1", "[86 62 91]"),
        ("ZLB.INCR league United points 3 difference 1 goals 1", "[89 56 89]"),
        ("ZLB.RANGE league 0 1", "['United' 'City']"),
    ]);
    // 90+2: Dzeko, 90+4: Aguero. 3-2.
    c.script(&[
        ("ZLB.INCR league City points 1 difference 1 goals 1", "[87 63 92]"),
        ("ZLB.RANK league City", "1"),
        ("ZLB.INCR league City points 2 difference 1 goals 1", "[89 64 93]"),
        ("ZLB.RANK league City", "0"),
    ]);
    c.run("ZLB.INCR league Arsenal points 3 difference 1 goals 3");
    c.run("ZLB.INCR league Tottenham points 3 difference 2 goals 2");
    c.run("ZLB.INCR league Newcastle difference -2 goals 1");
    c.run("ZLB.INCR league Chelsea points 3 difference 1 goals 2");
    c.script(&[(
        "ZLB.RANGE league 0 -1 WITHVALUES",
        "[['City' 89 64 93] ['United' 89 56 89] ['Arsenal' 70 25 74] ['Tottenham' 69 25 66] \
         ['Newcastle' 65 5 56] ['Chelsea' 64 19 65]]",
    )]);
}

/// The World Cup of 2018, group H: Japan and Senegal had the same points, difference and goals, and had drawn their
/// match. Japan went on, as it had four points of cards against it and Senegal six. Fewer is better: ASC.
#[test]
fn a_group_decided_by_fair_play() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE group-h DIM points DIM difference DIM goals DIM cards ASC");
    c.run("ZLB.SET group-h Senegal 4 0 4 6 Japan 4 0 4 4");
    c.script(&[("ZLB.RANGE group-h 0 -1", "['Japan' 'Senegal']")]);
}

/// A hall of fame: the three best runs, less time first, and of equal times the one that came first.
#[test]
fn personal_bests_on_a_short_board() {
    let (_server, mut c) = start();
    // The men's 100 metres. Only a better time replaces what somebody has.
    c.run("ZLB.CREATE fastest DIM seconds ASC FLOAT KEEP 3");
    c.run("ZLB.SET fastest BEST Powell 9.74");
    c.run("ZLB.SET fastest BEST Bolt 9.72");
    c.run("ZLB.SET fastest BEST Bolt 9.69");
    c.run("ZLB.SET fastest BEST Powell 9.72");
    c.run("ZLB.SET fastest BEST Bolt 9.58");
    c.run("ZLB.SET fastest BEST Gay 9.69");
    c.run("ZLB.SET fastest BEST Bolt 9.63");
    c.script(&[
        ("ZLB.SET fastest BEST Blake 9.69", "1"),
        ("ZLB.SET fastest BEST Gatlin 9.74", "0"),
        ("ZLB.RANGE fastest 0 -1 WITHVALUES", "[['Bolt' '9.58'] ['Gay' '9.69'] ['Blake' '9.69']]"),
        ("ZLB.RANK fastest Blake COMPETITION", "1"),
    ]);
}
