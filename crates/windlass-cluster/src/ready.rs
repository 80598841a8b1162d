//! Whether what the API shows is ready: pure predicates over objects. Absent is not ready.
