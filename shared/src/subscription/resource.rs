//! The event subscription as a resource document.
