//! Names of topics and event subscriptions: unique and found without regard to case, kept as first
//! spelled. Source: Azure, "Naming rules and restrictions for Azure resources".

use std::cmp::Ordering;

/// Returns a name in lower case, as stores and caches key it. Names are ASCII.
pub fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Compares two names without regard to case, in the order of [`folded`].
pub fn compare(one: &str, other: &str) -> Ordering {
    let lower = |byte: u8| byte.to_ascii_lowercase();
    one.bytes().map(lower).cmp(other.bytes().map(lower))
}

/// Returns whether two spellings name the same topic or event subscription.
pub fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::*;

    #[test]
    fn names_are_compared_as_they_are_folded() {
        let table = [
            ("orders", "ORDERS", Equal),
            ("Orders-EU", "orders-eu", Equal),
            ("billing", "Billing-2", Less),
            ("Zoo", "audit", Greater),
            ("a-b", "aB", Less),
            ("S10", "s2", Less),
        ];
        for (one, other, want) in table {
            assert_eq!(compare(one, other), want, "{one} {other}");
            assert_eq!(folded(one).cmp(&folded(other)), want, "{one} {other}");
            assert_eq!(is_same(one, other), want == Equal, "{one} {other}");
        }
    }
}
