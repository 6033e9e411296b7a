use super::*;
use crate::base::fuzzing;
use proptest::prelude::*;

codes! {
    ONE = 0,
    TWO = 1,
}

fn read(bytes: &[u8]) -> Result<Vec<(u8, u64)>, Unreadable> {
    let unpacker = Unpacker::begin(bytes).map_err(|why| Unreadable::new("effects", why))?;
    unpacker.effects(name, |code, body| Ok((code, body.number()?)))
}

#[test]
fn an_effect_that_is_unknown_too_short_or_too_long_is_named() {
    let mut packer = Packer::default();
    assert!(packer.begin() && !packer.begin());
    packer.effect(ONE, |body| {
        body.number(300);
    });
    packer.effect(TWO, |body| {
        body.number(0);
    });
    assert_eq!(packer.bytes(), [1, 0, 2, 0xAC, 2, 1, 1, 0]);
    assert_eq!(read(packer.bytes()), Ok(vec![(ONE, 300), (TWO, 0)]));
    for (bytes, why) in [
        (&[][..], "effects: it is cut short"),
        (&[2], "effects: it has format 2; this version of the module reads format 1"),
        (&[1, 0], "ONE: it is cut short"),
        (&[1, 0, 1], "ONE: it is cut short"),
        (&[1, 0, 0], "ONE: it is cut short"),
        (&[1, 0, 1, 0x80], "ONE: it is cut short"),
        (&[1, 0, 1, 5, 1, 2, 5, 5], "TWO: it is invalid: it is too long"),
        (&[1, 0, 1, 5, 7, 1, 5], "7: it is invalid: it is unknown"),
        (&[1, 0, 2, 0x80, 0], "ONE: it is invalid: malformed number"),
    ] {
        assert_eq!(read(bytes).map_err(|it| it.to_string()), Err(why.to_owned()), "{bytes:?}");
    }
}

proptest! {
    #![proptest_config(fuzzing())]

    #[test]
    fn what_was_packed_is_read_and_nothing_else(number: u64, signed: i64, option: Option<u64>, text: Vec<u8>, after: u8) {
        let option = option.filter(|&option| option < u64::MAX);
        let mut packer = Packer::default();
        packer.number(number).number(zigzag(signed)).option(option).text(&text).byte(after);
        let mut unpacker = Unpacker::of(packer.bytes());
        prop_assert_eq!(unpacker.number(), Ok(number));
        prop_assert_eq!(unpacker.number().map(unzigzag), Ok(signed));
        prop_assert_eq!(unpacker.option(), Ok(option));
        prop_assert_eq!(unpacker.text(), Ok(&text[..]));
        prop_assert_eq!(unpacker.byte(), Ok(after));
        prop_assert!(unpacker.is_empty());
    }

    #[test]
    fn a_number_has_one_form(bytes: Vec<u8>) {
        let mut unpacker = Unpacker::of(&bytes);
        if let Ok(number) = unpacker.number() {
            let mut again = Vec::new();
            put_number(&mut again, number);
            prop_assert!(bytes.starts_with(&again) && unpacker.0.len() == bytes.len() - again.len());
        }
    }
}
