"""Tools of asynchronous code: backoff, rate limiter, single flight, wake-up."""
