//! Rows of tables from outside that Gridpost answers otherwise, each with its reason.

use std::collections::BTreeSet;

/// A row's name, and why it is answered otherwise.
pub(crate) type Different = (&'static str, &'static str);

/// The result of a row: nothing, or the problem with the answer.
pub(crate) type Verdict = Result<(), String>;

/// Fails with every row that is answered otherwise and not listed, and with every listed row that
/// is answered alike now, or is no row at all.
pub(crate) fn judge(rows: &[(String, Verdict)], different: &[Different]) {
    let names: BTreeSet<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "two rows have one name");
    let listed = |name: &str| different.iter().find(|(row, _)| *row == name);
    let mut problems: Vec<String> = different
        .iter()
        .filter(|(row, reason)| !names.contains(row) || reason.is_empty())
        .map(|(row, _)| format!("{row}: listed as different, but no row, or for no reason"))
        .collect();
    problems.extend(rows.iter().filter_map(|(name, verdict)| match (verdict, listed(name)) {
        (Err(problem), None) => Some(format!("{name}: {problem}")),
        (Ok(()), Some((_, reason))) => {
            Some(format!("{name}: answered alike; listed as different because {reason}"))
        }
        (Ok(()), None) | (Err(_), Some(_)) => None,
    }));
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<(String, Verdict)> {
        vec![("a".to_owned(), Ok(())), ("b".to_owned(), Err("answered 500".to_owned()))]
    }

    #[test]
    fn a_listed_row_may_differ() {
        judge(&rows(), &[("b", "it is so")]);
    }

    #[test]
    #[should_panic(expected = "b: answered 500")]
    fn a_row_that_is_not_listed_may_not() {
        judge(&rows(), &[]);
    }

    #[test]
    #[should_panic(expected = "a: answered alike; listed as different because of old")]
    fn a_listed_row_that_is_answered_alike_is_found() {
        judge(&rows(), &[("a", "of old"), ("b", "it is so")]);
    }

    #[test]
    #[should_panic(expected = "c: listed as different, but no row")]
    fn a_listed_row_that_is_not_there_is_found() {
        judge(&rows(), &[("b", "it is so"), ("c", "it was so")]);
    }
}
