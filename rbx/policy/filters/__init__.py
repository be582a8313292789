"""Filters: who may serve a request at all, before the policy chooses among them."""
