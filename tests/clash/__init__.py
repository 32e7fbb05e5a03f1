"""Clients that clash with a real ``muster serve``, and what it keeps and answers.

``python -m tests.clash`` runs them; ``make clash`` does so for long. A round is one state directory, a
server on it that is killed and started again and again, and clients that send events, leave in the
middle, read slowly and follow streams. In the end, answers, streams and lists agree with the store.
"""
