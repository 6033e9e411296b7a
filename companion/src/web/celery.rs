//! Tasks of Celery. The broker of the Python library pushes a task as JSON: the name is in a header, and the arguments
//! are in a body, which is usually base64.

use crate::text::printable;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use serde_json::Value;

/// The longest text of arguments that a page shows, and the longest name, in characters.
const LONGEST: usize = 2_000;
const LONGEST_NAME: usize = 200;

pub struct Task {
    pub name: String,
    headers: Vec<(&'static str, String)>,
    /// The arguments, decoded. JSON by default.
    pub body: Vec<u8>,
}

impl Task {
    /// Returns the task that a payload contains; `None` if it is no task of Celery.
    pub fn read(payload: &[u8]) -> Option<Task> {
        let message: Value = serde_json::from_slice(payload).ok()?;
        let headers = message.get("headers")?.as_object()?;
        let body = message.get("body")?.as_str()?;
        let body = match message.pointer("/properties/body_encoding").and_then(Value::as_str) {
            Some("base64") => STANDARD.decode(body).ok()?,
            _ => body.as_bytes().to_vec(),
        };
        let shown = |field: &str| match headers.get(field)? {
            Value::String(text) => Some(text.chars().take(LONGEST).collect()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let fields = [
            ("ID", "id"),
            ("Arguments", "argsrepr"),
            ("Keyword arguments", "kwargsrepr"),
            ("ETA", "eta"),
            ("Expires", "expires"),
            ("Retries", "retries"),
            ("Sent by", "origin"),
        ];
        let headers = fields.into_iter().filter_map(|(label, field)| Some((label, shown(field)?)));
        let name = shown("task")?.chars().take(LONGEST_NAME).collect();
        Some(Task { name, headers: headers.collect(), body })
    }

    /// Returns the name and the arguments, for one line.
    pub fn line(&self) -> String {
        let arguments = self.headers.iter().filter(|(label, _)| label.ends_with("rguments"));
        arguments.fold(self.name.clone(), |line, (_, text)| format!("{line} {text}"))
    }

    pub fn facts(&self) -> Markup {
        html! { section #celery {
            h2 { "Celery task" }
            dl.settings {
                div { dt { "Task" } dd { (printable(self.name.as_bytes())) } }
                @for (label, text) in &self.headers { div { dt { (label) } dd { (printable(text.as_bytes())) } } }
            }
        } }
    }
}

/// Returns the name of the task that a payload contains; `None` if it is no task of Celery.
pub fn name(payload: &[u8]) -> Option<String> {
    // Most payloads are no tasks, and need no parsing.
    payload.windows(6).any(|six| six == b"\"task\"").then(|| Some(Task::read(payload)?.name))?
}

#[cfg(test)]
mod tests {
    use super::Task;

    #[test]
    fn a_task_is_read_with_its_arguments() {
        let payload = br#"{"body": "W1sxLCAyXSwge31d", "properties": {"body_encoding": "base64"}, "headers":
            {"task": "shop.add", "id": "7", "eta": "2100-01-01T00:00:00+00:00", "argsrepr": "(1, 2)", "kwargsrepr": "{}",
             "retries": 0, "expires": null, "origin": ["no text"]}}"#;
        let task = Task::read(payload).expect("a task");
        assert_eq!(task.line(), "shop.add (1, 2) {}");
        assert_eq!(task.body, b"[[1, 2], {}]");
        let labels: Vec<_> = task.headers.iter().map(|(label, _)| *label).collect();
        assert_eq!(labels, ["ID", "Arguments", "Keyword arguments", "ETA", "Retries"]);
    }

    #[test]
    fn other_payloads_are_no_tasks() {
        for payload in [
            &b""[..],
            b"text",
            b"{}",
            b"[1]",
            br#"{"body": "x", "headers": []}"#,
            br#"{"body": "x", "headers": {"id": "1"}}"#,
            br#"{"body": 1, "headers": {"task": "a"}}"#,
            br#"{"body": "?", "headers": {"task": "a"}, "properties": {"body_encoding": "base64"}}"#,
        ] {
            assert!(Task::read(payload).is_none(), "{}", String::from_utf8_lossy(payload));
        }
    }
}
