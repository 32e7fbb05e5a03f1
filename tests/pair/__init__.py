"""A storm of two real servers, of which one follows the other with ``--sync strict``.

``python -m tests.pair`` runs it; ``make pair`` does so for long. Both are killed, stopped and run out of
disk, the connections between them are cut, slowed down and stalled, and the follower is promoted again and
again. Meanwhile clients send events until each call is answered, and others follow the decisions. In the
end, all that was answered or followed is in the store of the leader.
"""
