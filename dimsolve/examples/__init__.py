"""Models to try dimsolve on: factories for ``dimsolve plan`` and ``dimsolve run``.

    dimsolve run dimsolve.examples.llama:tiny --mesh tp=2

Each factory returns the model, an example call by keyword, and the names of its dynamic dimensions.
The models are those of the transformers library, built from small configs with random weights;
``pip install 'dimsolve[models]'`` brings it.
"""
