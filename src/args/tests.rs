use super::*;
use crate::base::{any_text, fuzzing};
use proptest::prelude::*;

#[test]
fn integers_are_read_as_strictly_as_the_server_reads_them() {
    for (text, value) in [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)] {
        assert_eq!(integer(text.as_bytes()), Some(value));
    }
    for bad in ["", "-", "+1", " 1", "1 ", "01", "-0", "00", "0x1", "1.0", "1e3", "9223372036854775808", "1\0"] {
        assert_eq!(integer(bad.as_bytes()), None, "{bad:?}");
    }
}

#[test]
fn floats_are_decimal_and_finite() {
    for (text, value) in [
        ("0", 0.0),
        ("-0", 0.0),
        ("0e9", 0.0),
        ("-1.5", -1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e+20", 1e20),
        ("1E-7", 1e-7),
        ("1.7976931348623157e308", f64::MAX),
        ("5e-324", 5e-324),
    ] {
        assert_eq!(float(text.as_bytes()), Some(value), "{text}");
    }
    for bad in [
        "", "-", ".", "+1", " 1", "1 ", "1,5", "0x1", "1e", "e1", "1e999", "1e-999", "--1", "1.2.3", "1_0", "nan",
        "inf", "-inf", "infinity", "1\0",
    ] {
        assert_eq!(float(bad.as_bytes()), None, "{bad:?}");
    }
}

#[test]
fn an_option_may_be_given_once() {
    let (mut set, mut value) = (false, None);
    assert_eq!((flag(&mut set), flag(&mut set)), (Ok(()), Err(Error::Syntax)));
    assert_eq!((once(&mut value, 1), once(&mut value, 1)), (Ok(()), Err(Error::Syntax)));
}

proptest! {
    #![proptest_config(fuzzing())]

    #[test]
    fn an_integer_is_what_would_be_written_for_it_and_nothing_else(text in any_text()) {
        if let Some(value) = integer(&text) {
            prop_assert_eq!(value.to_string().into_bytes(), text);
        }
    }

    #[test]
    fn every_integer_is_read(value in any::<i64>()) {
        prop_assert_eq!(integer(value.to_string().as_bytes()), Some(value));
    }

    #[test]
    fn a_float_is_finite_and_what_the_text_says(text in any_text()) {
        if let Some(value) = float(&text) {
            prop_assert!(value.is_finite());
            let text = String::from_utf8(text).expect("digits, signs, a point");
            prop_assert!(text.parse::<f64>() == Ok(value));
            prop_assert!(!text.contains(|c: char| c.is_whitespace() || c.is_control()));
        }
    }

    #[test]
    fn every_finite_float_is_read(value in any::<f64>()) {
        prop_assert_eq!(float(value.to_string().as_bytes()), Some(value).filter(|value| value.is_finite()));
    }
}
