"""What runs the commands of asks: this machine, or a cluster of Ray.

``registry`` names the backends. Each is a module with its options, its checks and its work;
``cluster`` has what backends have in common that run commands on other machines.
"""
