//! Finds the programs that a shell script starts: the words at the beginning of commands. This is no shell: it knows as
//! much of the language as the scripts of this repository use.

use std::collections::BTreeSet;

/// Words after which another command begins.
const BEFORE_COMMANDS: [&str; 12] =
    ["!", "{", "do", "elif", "else", "if", "then", "time", "until", "while", "exec", "xargs"];

/// Builtins of the shell, and reserved words that no command follows.
const OF_THE_SHELL: &str = "\
    . : [ [[ break case cd command continue declare done echo esac eval exit export false fi for getopts hash in jobs \
    local printf pwd read return select set shift source test trap true type ulimit umask unset wait } kill";

/// Returns the programs that a script starts by name. Functions that the script defines are no programs.
pub fn programs(script: &str) -> BTreeSet<String> {
    let mut shell = Shell { text: script.chars().collect(), at: 0, started: BTreeSet::new(), functions: Vec::new() };
    while shell.at < shell.text.len() {
        shell.list();
        shell.at += 1;
    }
    let is_own = |word: &str| shell.functions.iter().any(|name| name == word);
    let is_builtin = |word: &str| OF_THE_SHELL.split(' ').any(|name| name == word);
    shell.started.iter().filter(|word| !is_own(word) && !is_builtin(word)).cloned().collect()
}

struct Shell {
    text: Vec<char>,
    at: usize,
    started: BTreeSet<String>,
    functions: Vec<String>,
}

impl Shell {
    fn peek(&self) -> char {
        self.text.get(self.at).copied().unwrap_or('\0')
    }

    fn sees(&self, word: &str) -> bool {
        word.chars().enumerate().all(|(n, char)| self.text.get(self.at + n) == Some(&char))
    }

    fn skip_past(&mut self, end: &str) {
        while self.at < self.text.len() && !self.sees(end) {
            self.at += 1;
        }
        self.at += end.len();
    }

    /// Reads commands up to a `)` that no `(` of these commands opened.
    fn list(&mut self) {
        // A command begins here. In `case`, a pattern begins here, up to its `)`.
        let (mut begins, mut cases, mut is_pattern) = (true, 0, false);
        let mut documents: Vec<String> = Vec::new();
        while self.at < self.text.len() {
            match self.peek() {
                '\n' => {
                    self.at += 1;
                    for end in std::mem::take(&mut documents) {
                        self.skip_past(&format!("\n{end}\n"));
                    }
                    begins = true;
                }
                ' ' | '\t' => self.at += 1,
                '\\' if self.sees("\\\n") => self.at += 2,
                '#' => self.skip_to_line_end(),
                ')' if is_pattern => {
                    self.at += 1;
                    (is_pattern, begins) = (false, true);
                }
                ')' => return,
                ';' if self.sees(";;") => {
                    self.at += 2;
                    is_pattern = cases > 0;
                }
                '(' if self.sees("((") => self.skip_past("))"),
                '(' => {
                    self.at += 1;
                    self.list();
                    self.at += 1;
                    begins = false;
                }
                ';' | '|' | '&' => {
                    self.at += 1;
                    begins = true;
                }
                '<' | '>' => self.redirection(&mut documents),
                _ => {
                    let word = self.word();
                    if self.sees("()") {
                        self.at += 2;
                        self.functions.push(word);
                        begins = true;
                    } else if is_pattern {
                        if word == "esac" {
                            (cases, is_pattern, begins) = (cases - 1, false, false);
                        }
                    } else if begins {
                        begins = self.first(&word);
                        cases += usize::from(word == "case");
                        cases -= usize::from(word == "esac");
                    } else if word == "in" && cases > 0 {
                        is_pattern = true;
                    }
                }
            }
        }
    }

    /// Handles the first word of a command. Returns whether the next word is a first word, too.
    fn first(&mut self, word: &str) -> bool {
        let name = word.split(['=', '[']).next().unwrap_or_default().trim_end_matches('+');
        let is_assignment = word.contains('=') && name.chars().all(|char| char.is_alphanumeric() || char == '_');
        if is_assignment || BEFORE_COMMANDS.contains(&word) || word.starts_with('-') {
            return true;
        }
        if word.starts_with(|char: char| char.is_ascii_lowercase()) && !word.contains(['$', '/', '*']) {
            self.started.insert(word.to_owned());
        }
        false
    }

    fn redirection(&mut self, documents: &mut Vec<String>) {
        if self.sees("<(") || self.sees(">(") {
            self.at += 2;
            self.list();
            self.at += 1;
        } else if self.sees("<<") && !self.sees("<<<") {
            self.at += 2;
            documents.push(self.word().trim_start_matches('-').to_owned());
        } else {
            while "<>&|-".contains(self.peek()) {
                self.at += 1;
            }
            while self.peek() == ' ' {
                self.at += 1;
            }
            if !self.sees("<(") {
                self.word();
            }
        }
    }

    fn skip_to_line_end(&mut self) {
        while self.at < self.text.len() && self.peek() != '\n' {
            self.at += 1;
        }
    }

    /// Reads a word without its quotes. Keeps `$`, which marks that the word is not known here.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while self.at < self.text.len() && !" \t\n;|&()<>".contains(self.peek()) {
            match self.peek() {
                '\'' => {
                    self.at += 1;
                    let start = self.at;
                    self.skip_past("'");
                    word.extend(&self.text[start..self.at - 1]);
                }
                '"' => {
                    self.at += 1;
                    while self.at < self.text.len() && self.peek() != '"' {
                        self.letter(&mut word);
                    }
                    self.at += 1;
                }
                _ => self.letter(&mut word),
            }
            // `name=(...)` is an array.
            if self.peek() == '(' && word.ends_with('=') {
                self.at += 1;
                while self.at < self.text.len() && self.peek() != ')' {
                    if self.word().is_empty() {
                        self.at += 1;
                    }
                }
                self.at += 1;
            }
        }
        word
    }

    /// Reads a character, an escape or an expansion.
    fn letter(&mut self, word: &mut String) {
        if self.sees("$((") {
            self.skip_past("))");
        } else if self.sees("$(") {
            self.at += 2;
            self.list();
            self.at += 1;
        } else if self.sees("${") {
            while self.at < self.text.len() && self.peek() != '}' {
                self.at += 1;
                if self.sees("$(") {
                    self.letter(word);
                    self.at -= 1;
                }
            }
            self.at += 1;
        } else {
            if self.peek() == '\\' {
                self.at += 1;
            }
            word.push(self.peek());
            self.at += 1;
            return;
        }
        word.push('$');
    }
}

#[test]
fn programs_are_found_wherever_a_command_begins() {
    let script = "
        # kill nobody
        set -e; name=$(first -x | second) other='a; b' third && fourth \"$(fifth \"$(sixth)\")\" || exit 1
        list=(no \"$(seventh)\" no) helper() { eighth; }
        helper <<END >file
        ninth
END
        if ! tenth; then eleventh & fi
        case $1 in a | b) twelfth ;; *.md) thirteenth $((1 + 2)) ;; esac
        while read -r line; do fourteenth; done < <(fifteenth) 2>&1
        exec sixteenth ${x:-y} >\"$(seventeenth)\" # none
        echo it\\'s so | xargs -0 eighteenth '$(no)'
        $cargo build; ./script; /bin/true
    ";
    let found = programs(script);
    let expected = "eighteenth eighth eleventh fifteenth fifth first fourteenth fourth second seventeenth seventh \
                    sixteenth sixth tenth third thirteenth twelfth";
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn a_script_that_ends_too_early_is_read_to_its_end() {
    for script in ["first list=(a b", "first \"$(", "first '", "first ${x", "first $((1", "first <<END", "first \\"] {
        assert_eq!(programs(script), BTreeSet::from(["first".to_owned()]), "{script}");
    }
}
