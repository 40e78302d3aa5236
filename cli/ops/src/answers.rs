//! What a built-in endpoint answers, request by request.

use std::str::FromStr;

/// Statuses in the order they are given out; the last one repeats for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers(Vec<u16>);

/// Why a list of answers was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no HTTP status from 200 to 599; write one, or several as in 500,500,200")]
pub struct AnswersError {
    given: String,
}

impl Answers {
    /// Always `status`.
    pub fn always(status: u16) -> Self {
        Self(vec![status])
    }

    /// The status for request number `index`, counted from 0.
    pub fn nth(&self, index: usize) -> u16 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(index.min(last)).copied().unwrap_or(200)
    }
}

impl FromStr for Answers {
    type Err = AnswersError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let status = |part: &str| {
            let part = part.trim();
            match part.parse() {
                Ok(status @ 200..=599) => Ok(status),
                _ => Err(AnswersError { given: part.to_owned() }),
            }
        };
        list.split(',').map(status).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_repeats() {
        let answers: Answers = "500, 500,200".parse().expect("three statuses");
        let given: Vec<u16> = (0..5).map(|index| answers.nth(index)).collect();
        assert_eq!(given, [500, 500, 200, 200, 200]);
    }

    #[test]
    fn what_is_no_status_is_named() {
        for (list, named) in
            [("", ""), ("200,,500", ""), ("ok", "ok"), ("200,99", "99"), ("600", "600")]
        {
            let refused = list.parse::<Answers>().expect_err(list);
            assert_eq!(refused, AnswersError { given: named.to_owned() }, "{list}");
        }
    }
}
