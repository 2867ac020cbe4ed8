import json
import sys
import time
from dataclasses import asdict

from tests.opinfo.harness import *

out = sys.argv[1]
part = int(sys.argv[2])
of = int(sys.argv[3])
n = int(sys.argv[4])
try:
    done = {json.loads(l)["name"] for l in open(out)}
except FileNotFoundError:
    done = set()
E = list(entries().items())
with open(out, "a") as f:
    for i, (name, e) in enumerate(E):
        if i % of != part or name in done:
            continue
        t = time.time()
        print(name, flush=True)
        o = try_entry(e, n)
        f.write(json.dumps({**asdict(o), "seconds": round(time.time() - t, 2)}) + "\n")
        f.flush()
