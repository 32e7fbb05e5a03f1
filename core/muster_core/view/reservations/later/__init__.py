"""What will be later: when asks give nodes back, and what room there is then.

It knows asks and nodes, and nothing of who has a reservation.
"""
