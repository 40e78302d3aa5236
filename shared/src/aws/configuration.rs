//! Topics and event subscriptions in the configuration table.
