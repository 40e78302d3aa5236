//! From a publish request to deliveries.
