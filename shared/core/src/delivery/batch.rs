//! Chooses the deliveries that share a request.
//!
//! Batching is optimistic: deliveries that wait together are sent together, and none waits to
//! fill a request. Source: Event Grid, "Message delivery and retry", section "Output batching".

use crate::subscription::Batching;

/// The size of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub events: usize,
    pub bytes: usize,
}

/// Joins deliveries of one event subscription into requests; returns the positions of each.
///
/// No request has more events than allowed, or more bytes than preferred unless of one delivery.
pub fn join(loads: &[Load], batching: Batching) -> Vec<Vec<usize>> {
    let mut requests: Vec<(Load, Vec<usize>)> = Vec::new();
    for (position, load) in loads.iter().enumerate() {
        if let Some((sum, positions)) = requests.last_mut()
            && sum.events + load.events <= batching.max_events as usize
            && sum.bytes + load.bytes <= batching.preferred_bytes()
        {
            sum.events += load.events;
            sum.bytes += load.bytes;
            positions.push(position);
        } else {
            requests.push((*load, vec![position]));
        }
    }
    requests.into_iter().map(|(_, positions)| positions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_table() {
        let load = |events, bytes| Load { events, bytes };
        let batching =
            |max_events, preferred_kilobytes| Batching { max_events, preferred_kilobytes };
        let table = [
            (
                "off: each alone",
                vec![load(1, 9); 3],
                Batching::OFF,
                vec![vec![0], vec![1], vec![2]],
            ),
            ("by count", vec![load(1, 9); 3], batching(2, 64), vec![vec![0, 1], vec![2]]),
            ("by bytes", vec![load(1, 3_000); 3], batching(9, 6), vec![vec![0, 1], vec![2]]),
            (
                "larger than the target: alone",
                vec![load(1, 10_000), load(1, 1), load(1, 1)],
                batching(9, 4),
                vec![vec![0], vec![1, 2]],
            ),
            ("full ones stay apart", vec![load(5, 9); 2], batching(5, 64), vec![vec![0], vec![1]]),
            ("none", vec![], batching(9, 4), vec![]),
        ];
        for (row, loads, batching, want) in table {
            assert_eq!(join(&loads, batching), want, "{row}");
        }
    }
}
