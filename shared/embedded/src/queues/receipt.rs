//! Message ids and receipts.

pub(super) fn message_id(id: i64) -> String {
    format!("{id:016x}")
}

/// Returns the receipt of a message's `receives`-th receive. It survives a restart, because both
/// numbers are stored.
pub(super) fn write(id: i64, receives: u32) -> String {
    format!("{id:x}/{receives}")
}

/// Reads the message's id and the number of receives.
pub(crate) fn read(receipt: &str) -> Option<(i64, u32)> {
    let (id, receives) = receipt.split_once('/')?;
    Some((i64::from_str_radix(id, 16).ok()?, receives.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_read_as_they_were_written() {
        for (id, receives) in [(1, 1), (i64::MAX, u32::MAX), (0x123_4567_89ab, 1_000)] {
            assert_eq!(read(&write(id, receives)), Some((id, receives)));
        }
        for other in ["", "r", "1", "1/", "/1", "x/1", "1/x", "1/-1"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
