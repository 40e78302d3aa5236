//! Events and their wire schemas.
