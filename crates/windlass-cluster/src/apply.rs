//! Putting objects into the API by server-side apply.
