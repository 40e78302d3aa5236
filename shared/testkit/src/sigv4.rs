//! Checks signatures of AWS's Signature Version 4 as a service does: by making them again. It shares no
//! code with what signs.
//!
//! Source: IAM user guide, "Create a signed AWS API request".

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// A request as it came.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    pub method: &'a str,
    /// Path and query, as they were in the request's first line.
    pub target: &'a str,
    /// All headers, names in lower case.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

/// The claims of a good signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub key_id: String,
    /// `YYYYMMDDTHHMMSSZ`.
    pub at: String,
    pub region: String,
    pub service: String,
    pub session: Option<String>,
    /// The headers that it covers.
    pub covers: Vec<String>,
}

impl Received<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Makes the signature of a request again, with the secret of the key that it names.
pub fn verify(request: Received<'_>, secret: &str) -> Result<Signed, String> {
    let authorization = request.header("authorization").ok_or("no authorization")?;
    let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or("another algorithm")?;
    let part = |name: &str| {
        let parts = rest.split(',').map(str::trim);
        let mut found = parts.filter_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        found.next().ok_or(format!("no {name}"))
    };
    let scope: Vec<_> = part("Credential")?.split('/').collect();
    let [key_id, day, region, service, "aws4_request"] = scope[..] else {
        return Err(format!("a scope {scope:?}"));
    };
    let at = request.header("x-amz-date").ok_or("no x-amz-date")?;
    if !at.starts_with(day) {
        return Err(format!("a scope of {day} at {at}"));
    }
    let covers: Vec<_> = part("SignedHeaders")?.split(';').map(str::to_owned).collect();
    for must in ["host", "x-amz-date"] {
        if !covers.iter().any(|name| name == must) {
            return Err(format!("{must} is not covered"));
        }
    }
    let hash = hex(&Sha256::digest(request.body));
    if request.header("x-amz-content-sha256").is_some_and(|sent| sent != hash) {
        return Err("another body's hash".to_owned());
    }
    let canonical = canonical(request, &covers, &hash)?;
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", hex(&Sha256::digest(&canonical)));
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in [day, region, service, "aws4_request", &text] {
        key = mac(&key, part);
    }
    if part("Signature")? != hex(&key) {
        return Err(format!("another signature than that of:\n{canonical}"));
    }
    Ok(Signed {
        key_id: key_id.to_owned(),
        at: at.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
        session: request.header("x-amz-security-token").map(str::to_owned),
        covers,
    })
}

fn canonical(request: Received<'_>, covers: &[String], hash: &str) -> Result<String, String> {
    let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
    let path: Vec<_> = path.split('/').map(|part| encoded(part.as_bytes())).collect();
    let mut query: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            format!("{}={}", encoded(&decoded(name)), encoded(&decoded(value)))
        })
        .collect();
    query.sort_unstable();
    let mut text = format!("{}\n{}\n{}\n", request.method, path.join("/"), query.join("&"));
    for name in covers {
        let value = request.header(name).ok_or(format!("{name} is covered and missing"))?;
        let value: Vec<_> = value.split_whitespace().collect();
        let _ = writeln!(text, "{name}:{}", value.join(" "));
    }
    let _ = write!(text, "\n{}\n{hash}", covers.join(";"));
    Ok(text)
}

fn encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            other => {
                let _ = write!(text, "%{other:02X}");
            }
        }
    }
    text
}

fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, hex) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    decoded
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
