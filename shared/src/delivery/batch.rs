//! Which deliveries go out in one request.
