//! Readable JSON: the text with line breaks and indentation between its tokens. Unlike a parser, this module keeps
//! the digits of numbers and the order of members.

/// The maximum length of the indented output in bytes. Deep nesting makes the output much longer than the input.
const LONGEST: usize = 512 * 1024;

/// Returns the JSON text with indentation. Returns `None` if the text is not a valid object or array, or if the output
/// would be too long.
pub fn indented(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.trim_start().starts_with(['{', '[']))?;
    serde_json::from_str::<serde_json::Value>(text).ok()?;
    let (mut out, mut depth) = (String::with_capacity(2 * text.len()), 0);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = rest.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                while rest.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                if let Some(end) = rest.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
        if out.len() > LONGEST {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn only_blanks_between_tokens_change() {
        let text = r#" {"b":[1,{},[ ],12345678901234567890.10],"a":{"x\"y\\":"{[,:]} é"},"b":null}"#;
        let shown = indented(text.as_bytes()).expect("JSON");
        let expected = "{\n  \"b\": [\n    1,\n    {},\n    [],\n    12345678901234567890.10\n  ],\n  \"a\": {\n    \
             \"x\\\"y\\\\\": \"{[,:]} é\"\n  },\n  \"b\": null\n}";
        assert_eq!(shown, expected);
        assert_eq!(indented(shown.as_bytes()).as_deref(), Some(expected), "it is JSON still");
    }

    #[test]
    fn what_is_not_json_is_left_alone() {
        for text in [&b""[..], b"12", b"\"text\"", b"{", b"[1,]", b"{\"a\":\xff}", b"[1] 2"] {
            assert_eq!(indented(text), None, "{text:?}");
        }
        assert_eq!(indented(&b"[".repeat(60_000)), None);
        let wide = format!("{}{}{}", "[".repeat(120), "1,".repeat(30_000) + "1", "]".repeat(120));
        assert_eq!(indented(wide.as_bytes()), None, "much of little");
    }
}
