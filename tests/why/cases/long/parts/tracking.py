class Tracker:
    def __init__(self, name):
        self.name = name
        self.rows = []

    def track(self, step, *values):
        self.rows.append((step, values))

    def report(self):
        for step, values in self.rows:
            print(self.name, step, *(f"{float(v):.3f}" for v in values))
