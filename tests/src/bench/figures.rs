//! Figures of several runs, summed up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Figures by name.
pub type Figures = BTreeMap<String, f64>;

/// A figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Spread {
    /// The middle value; for an even number of values, the mean of the two in the middle.
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Over these values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Self { median, min, max })
    }

    /// Returns it with this number of digits: the median, then lowest and highest if they differ.
    pub fn written(&self, digits: usize) -> String {
        let Self { median, min, max } = self;
        if min == max {
            return format!("{median:.digits$}");
        }
        format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
    }
}

/// Every figure over all runs.
pub fn spreads(runs: &[Figures]) -> BTreeMap<String, Spread> {
    let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in runs.iter().flatten() {
        values.entry(name).or_default().push(*value);
    }
    let spread = |(name, values): (&String, Vec<f64>)| Some((name.clone(), Spread::of(&values)?));
    values.into_iter().filter_map(spread).collect()
}

/// The value below which `percent` of the values lie (nearest rank); 0 without values.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * percent / 100.0).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        let spread = |values: &[f64]| Spread::of(values).map(|s| (s.median, s.min, s.max));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(&[]), None);
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (percent, want) in [(50.0, 50.0), (95.0, 95.0), (99.0, 99.0), (100.0, 100.0)] {
            assert_eq!(percentile(&hundred, percent), want);
        }
        assert_eq!((percentile(&[], 50.0), percentile(&[7.0], 99.0)), (0.0, 7.0));
    }
}
