//! SAS tokens.

use gridpost_core::{publish::sas::Token, time::Timestamp};

const KEY: &str = "a2V5MQ==";

/// A token, good or not: none of another key passes, and none but the text that was signed.
pub(crate) fn token(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let now = Timestamp::from_millis(1_795_248_000_123);
    match Token::parse(text) {
        Ok(token) => {
            assert!(!token.is_signed_with("b3RoZXI="), "signed with a key that nobody used");
            let good = token.is_signed_with(KEY);
            if let Err(error) = token.check("/topics/orders/api/events", "/topics/orders", now) {
                assert!(error.to_string().len() < 1_000, "{error}");
            }
            let changed = text.replacen("r=", "r=x", 1);
            let signed = Token::parse(&changed).is_ok_and(|token| token.is_signed_with(KEY));
            assert!(!(good && signed), "the signature does not depend on the resource");
        }
        Err(error) => assert!(error.to_string().len() < 1_000, "{error}"),
    }
}
