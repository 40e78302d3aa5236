//! The ports on HTTP.
