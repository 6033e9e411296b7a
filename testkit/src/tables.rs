//! Documentation pages line by line: headings, table rows, and expected lines.

use crate::page::{Page, writes};

/// Returns the texts in backticks.
pub fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the code blocks whose fence names `language`, without indentation.
pub fn blocks<'a>(lines: impl IntoIterator<Item = &'a String>, language: &str) -> Vec<String> {
    let (fence, mut blocks, mut is_inside) = (format!("```{language}"), Vec::new(), false);
    for line in lines.into_iter().map(|line| line.trim_start()) {
        match line {
            "```" => is_inside = false,
            _ if line == fence => {
                is_inside = true;
                blocks.push(String::new());
            }
            _ if is_inside => blocks.last_mut().expect("a block has begun").extend([line, "\n"]),
            _ => {}
        }
    }
    blocks
}

/// Returns the cells of a row of a table.
pub fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(row.split(" | ").map(str::trim).collect())
}

impl Page {
    /// Returns the lines between a heading and the next heading.
    pub fn section(&self, heading: &str) -> impl Iterator<Item = &String> {
        let title = format!("## {heading}");
        assert!(self.lines.contains(&title), "{}: {title}", self.path().display());
        self.lines.iter().skip_while(move |line| **line != title).skip(1).take_while(|line| !line.starts_with("## "))
    }

    /// Returns the second cell of the row that begins with `name`.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.lines.iter().filter_map(|line| cells(line)).find(|row| row[0] == name).map(|row| row[1])
    }

    /// Compares a line with the expected text. In update mode, writes the expected text into the page.
    pub fn expect(&mut self, number: usize, expected: &str) {
        if writes() && self.lines[number] != expected {
            self.lines[number] = expected.into();
            self.save();
        }
        assert_eq!(self.lines[number], expected, "{}:{}", self.path().display(), number + 1);
    }

    /// Compares the second cell of the row `name` with `expected`. In update mode, writes `expected` into the cell.
    pub fn expect_fact(&mut self, name: &str, expected: &str) {
        let number = self.lines.iter().position(|line| line.starts_with(&format!("| {name} |")));
        let number = number.unwrap_or_else(|| panic!("{}: no row {name}", self.path().display()));
        self.expect(number, &format!("| {name} | {expected} |"));
    }
}
