//! Files that people give: text in the forms in which their tools save it.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use anyhow::Context;

use crate::failure::Misuse;

/// Reads the text of a file, or of standard input when it is called `-`: UTF-8 with or without a byte
/// order mark, or UTF-16 with one, as PowerShell's `>` and Windows editors write it.
/// Fails with [`Misuse`] when it is neither.
pub fn text(path: &Path) -> anyhow::Result<String> {
    text_of(path, &bytes(path)?)
}

/// Returns the text of a file's bytes in the same way.
pub fn text_of(path: &Path, bytes: &[u8]) -> anyhow::Result<String> {
    // Other encodings, such as UTF-32, leave a NUL beside each letter.
    let text = decoded(bytes).filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        let problem = "is neither UTF-8 nor UTF-16 with a byte order mark: save it as UTF-8";
        Misuse(format!("{} {problem}", path.display())).into()
    })
}

/// Reads a file, or standard input when it is called `-`, as it is.
pub fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path != Path::new("-") {
        return fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
    Ok(bytes)
}

fn decoded(bytes: &[u8]) -> Option<String> {
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        bytes => String::from_utf8(bytes.to_vec()).ok(),
    }
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks();
    let units = pairs.iter().map(|pair| unit(*pair));
    char::decode_utf16(units).collect::<Result<_, _>>().ok().filter(|_: &String| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn utf_16_of(text: &str, mark: &[u8], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        let mut all = mark.to_vec();
        all.extend(text.encode_utf16().flat_map(bytes));
        all
    }

    proptest! {
        #[test]
        fn a_text_is_read_in_every_form(text: String) {
            prop_assume!(!text.starts_with('\u{feff}'));
            let marked = format!("\u{feff}{text}");
            let forms = [
                text.clone().into_bytes(),
                marked.into_bytes(),
                utf_16_of(&text, &[0xff, 0xfe], u16::to_le_bytes),
                utf_16_of(&text, &[0xfe, 0xff], u16::to_be_bytes),
            ];
            for form in forms {
                prop_assert_eq!(decoded(&form), Some(text.clone()));
            }
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let table: [&[u8]; 4] =
            [b"\xe9t\xe9", b"\xff\xfea", b"\xff\xfe\x00\xd8", b"PK\x03\x04\xff"];
        for bytes in table {
            assert_eq!(decoded(bytes), None, "{bytes:?}");
        }
    }
}
