"""Studies of bus engines: Rust's data, and two simulated worlds after them."""
