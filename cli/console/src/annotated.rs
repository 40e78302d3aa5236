//! Shows why a document was refused: the document with its problems at their places.

use maud::{Markup, html};
use serde_json::Value;

use super::{failure, text};
use gridpost_ops::failure::{Detail, Refusal};

/// Shows a refusal of a document, with the document as far as it could be read.
pub(super) fn refused(error: &anyhow::Error, document: Option<&Value>) -> Markup {
    let refusal = error.downcast_ref::<Refusal>();
    let placed = refusal.filter(|refusal| !refusal.details.is_empty()).zip(document);
    let Some((refusal, document)) = placed else {
        return failure::problem("Nothing was saved.", error);
    };
    html! {
        div.problem role="alert" {
            p { strong { "Nothing was saved." } }
            p { (text::prose(&refusal.message)) }
            (annotated(document, &refusal.details))
            @if let Some(step) = refusal.next_step() { p { (step) } }
        }
    }
}

/// A document, line by line, with each problem below the line of its member.
fn annotated(document: &Value, problems: &[Detail]) -> Markup {
    let mut lines = Vec::new();
    write(document, "", "", "", &mut lines);
    let is_placed =
        |one: &&Detail| lines.iter().any(|(path, _)| is_at(one.target.as_deref(), path));
    html! {
        (failure::details(problems.iter().filter(|one| !is_placed(one))))
        pre id="text-problems" role="region" aria-label="The document with its problems" tabindex="0" {
            @for (path, line) in &lines {
                (text::visible(line)) "\n"
                @for one in problems.iter().filter(|one| !path.is_empty() && is_at(one.target.as_deref(), path)) {
                    strong.t-bad { "  ↑ " (text::prose(&one.message)) "\n" }
                }
            }
        }
    }
}

/// Whether a problem's target is that path. The API writes `properties.a.b[0]`, some with `$.` before it.
fn is_at(target: Option<&str>, path: &str) -> bool {
    target.map(|target| target.trim_start_matches("$.")) == Some(path)
}

/// Lines of a document with the path of the member that begins in each.
fn write(value: &Value, path: &str, indent: &str, name: &str, lines: &mut Vec<(String, String)>) {
    let below = |member: &String| [path, member].join(if path.is_empty() { "" } else { "." });
    let (open, close, members): (_, _, Vec<_>) = match value {
        Value::Object(members) if !members.is_empty() => {
            let member =
                |(name, value)| (below(name), format!("{}: ", Value::from(name.as_str())), value);
            ('{', '}', members.iter().map(member).collect())
        }
        Value::Array(elements) if !elements.is_empty() => {
            let element = |(at, value)| (format!("{path}[{at}]"), String::new(), value);
            ('[', ']', elements.iter().enumerate().map(element).collect())
        }
        value => return lines.push((path.to_owned(), format!("{indent}{name}{value}"))),
    };
    lines.push((path.to_owned(), format!("{indent}{name}{open}")));
    for (path, name, value) in members {
        write(value, &path, &format!("{indent}  "), &name, lines);
    }
    lines.push((String::new(), format!("{indent}{close}")));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_stands_below_its_line() {
        let document = json!({"properties": {"filter": {"list": [{"key": "<b>"}]}}});
        let details = json!({"details": [
            {"target": "properties.filter.list[0].key", "message": "no such key"},
            {"target": "properties.x", "message": "what?"}]});
        let refusal = Refusal::from_answer(400, &details.to_string());
        let shown = annotated(&document, &refusal.details).into_string();
        let below = "&lt;b&gt;&quot;\n<strong class=\"t-bad\">  ↑ no such key";
        assert!(shown.contains(below), "{shown}");
        assert!(shown.contains("<li><code>properties.x</code>: what?</li>"), "{shown}");
    }
}
