"""The index of one user's memory: postings and vectors of passages, stored as bytes, searched in memory."""
