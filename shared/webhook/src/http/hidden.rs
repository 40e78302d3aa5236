//! Hides secrets of the request that a response repeats.

use std::borrow::Cow;

use gridpost_core::secret::Secret;
use percent_encoding::percent_decode;

/// Shorter values would hide ordinary words.
const BYTES_MIN: usize = 8;

/// The header with a webhook's signatures, each after its version and a comma.
const SIGNATURES: &str = "webhook-signature";
const INSTEAD: &[u8] = b"[hidden]";

/// Values that must not appear in our texts, the longest first: delivery attributes, authentication and
/// signatures, and the URL's query, whole and by value, as given and as sent.
pub(super) struct Hidden<'a>(Vec<Cow<'a, [u8]>>);

impl<'a> Hidden<'a> {
    pub(super) fn of(
        url: &'a Secret,
        headers: &'a [(&'static str, String)],
        attributes: &'a [(String, Secret)],
    ) -> Self {
        let mut hidden: Vec<Cow<'a, [u8]>> = Vec::new();
        if let Some((_, query)) = url.expose().split_once('?') {
            let values = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
            for text in values.chain([query]) {
                hidden.push(text.as_bytes().into());
                hidden.push(percent_decode(text.as_bytes()).collect::<Vec<u8>>().into());
            }
            if let Ok(sent) = url::Url::parse(url.expose()) {
                hidden.extend(sent.query().map(|query| query.as_bytes().to_vec().into()));
                let values = sent.query_pairs().map(|(_, value)| value.into_owned());
                hidden.extend(values.map(|value| value.into_bytes().into()));
            }
        }
        let signatures = headers.iter().filter(|(name, _)| *name == SIGNATURES);
        for signature in signatures.flat_map(|(_, all)| all.split(' ')) {
            hidden.push(signature.as_bytes().into());
            hidden.extend(signature.split_once(',').map(|(_, only)| only.as_bytes().into()));
        }
        for (_, value) in attributes {
            let whole = value.expose();
            hidden.push(whole.as_bytes().into());
            // A token is repeated without its scheme, too.
            hidden.extend(whole.split_once(' ').map(|(_, token)| token.trim().as_bytes().into()));
        }
        hidden.retain(|value| value.len() >= BYTES_MIN);
        hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(hidden)
    }

    /// Returns the beginning of a body without them, and without a value that is cut off at its end.
    pub(super) fn taken_from(&self, body: &[u8]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(body.len());
        let mut rest = body;
        while let [first, others @ ..] = rest {
            if let Some(value) = self.0.iter().find(|value| rest.starts_with(value.as_ref())) {
                kept.extend_from_slice(INSTEAD);
                rest = &rest[value.len()..];
            } else if rest.len() >= BYTES_MIN && self.0.iter().any(|value| value.starts_with(rest))
            {
                kept.extend_from_slice(INSTEAD);
                break;
            } else {
                kept.push(*first);
                rest = others;
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_kept(hidden: &Hidden<'_>, table: &[(&str, &str)]) {
        for (body, want) in table {
            let kept = hidden.taken_from(body.as_bytes());
            assert_eq!(String::from_utf8_lossy(&kept), *want, "{body}");
        }
    }

    #[test]
    fn values_of_the_query_and_signatures_are_hidden_however_they_are_written() {
        let url =
            Secret::new("https://e.example/h?name=order&code=hush hush&sig=a%2Fb%2Fc%2Fd%2Fe");
        let headers = [
            ("webhook-signature", "v1,c2lnbmVkCg== v1,b3RoZXIK+".to_owned()),
            ("webhook-id", "msg_12345678".to_owned()),
        ];
        let hidden = Hidden::of(&url, &headers, &[]);
        let table = [
            ("the key hush hush is unknown", "the key [hidden] is unknown"),
            ("of order", "of order"),
            ("?name=order&code=hush%20hush&sig=a%2Fb%2Fc%2Fd%2Fe", "?[hidden]"),
            ("a%2Fb%2Fc%2Fd%2Fe or a/b/c/d/e", "[hidden] or [hidden]"),
            ("v1,c2lnbmVkCg== differs", "[hidden] differs"),
            ("b3RoZXIK+ differs", "[hidden] differs"),
            ("msg_12345678", "msg_12345678"),
        ];
        assert_kept(&hidden, &table);
    }

    #[test]
    fn what_a_response_repeats_of_secrets_is_hidden() {
        let url = Secret::new("https://e.example/hook?code=hush-hush");
        let attributes =
            [("authorization", "Bearer ey.JhdXNo.x"), ("x-key", "hush-key"), ("x-a", "v")]
                .map(|(name, value)| (name.to_owned(), Secret::new(value)));
        let hidden = Hidden::of(&url, &[], &attributes);
        let table = [
            ("no such order", "no such order"),
            ("Authorization: Bearer ey.JhdXNo.x!", "Authorization: [hidden]!"),
            ("token ey.JhdXNo.x has expired", "token [hidden] has expired"),
            ("hush-keyhush-key", "[hidden][hidden]"),
            ("POST /hook?code=hush-hush HTTP", "POST /hook?[hidden] HTTP"),
            ("a short v stays", "a short v stays"),
            ("cut: ey.JhdXN", "cut: [hidden]"),
            ("cut: ey.J", "cut: ey.J"),
            ("", ""),
        ];
        assert_kept(&hidden, &table);
    }
}
