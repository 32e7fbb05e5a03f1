"""The objects of YuniKorn's end points: functions from the state and the ledger to maps.

They know no request and no response.
"""
