"""The code family: requests for programs, by area of programming."""

from __future__ import annotations

from rbx.grid.synth.family import Family
from rbx.grid.synth.template import Words, words


def _area(task: str, data: str, tool: str) -> Words:
    return {"task": words(task), "data": words(data), "tool": words(tool)}


_AREAS: dict[str, Words] = {
    "databases": _area(
        "find customers with late payments|count orders per month|join two tables on a composite key|add"
        " a covering index"
        "|paginate a large query|remove duplicate rows|compute a running total",
        "an orders table|a payments ledger|a table of sensor logs|a product catalogue|a users table",
        "PostgreSQL|SQLite|MySQL|a window function|a materialised view",
    ),
    "web": _area(
        "validate a sign-up form|cache responses of an API|paginate a REST endpoint|set security headers"
        "|upload a file"
        "|render a template|rate-limit requests",
        "a JSON payload|a cookie|a multipart form|a query string|a session token",
        "Flask|Express|Django|a reverse proxy|server-sent events",
    ),
    "strings": _area(
        "reverse the words of a sentence|find the longest palindrome|count vowels|compress repeated letters"
        "|check for an anagram|parse a musical notation|convert Roman numerals",
        "a list of words|a paragraph of text|a string of brackets|a comma-separated line|a string of digits",
        "a regular expression|a trie|two pointers|a hash map|recursion",
    ),
    "graphs": _area(
        "find the shortest path|detect a cycle|order tasks topologically|colour a map|find bridges"
        "|compute a spanning tree"
        "|group connected nodes",
        "an adjacency list|a weighted edge list|a grid maze|a dependency tree|a social network",
        "Dijkstra's algorithm|breadth-first search|union-find|a priority queue|depth-first search",
    ),
    "numerics": _area(
        "invert a matrix|fit a line by least squares|integrate a function|solve a linear system|generate"
        " primes"
        "|compute a moving average|find a root",
        "a NumPy array|a sparse matrix|a vector of samples|a polynomial|a time series",
        "NumPy|Newton's method|the trapezoid rule|gradient descent|vectorised code",
    ),
    "concurrency": _area(
        "run jobs in parallel|limit the number of workers|avoid a deadlock|cancel a slow task|share a"
        " counter safely"
        "|retry with back-off|batch requests in a queue",
        "a queue of URLs|a pool of connections|a stream of events|a shared dictionary|a set of futures",
        "asyncio|a thread pool|a mutex|goroutines|a semaphore",
    ),
    "mobile": _area(
        "show a list with images|store settings on the device|handle screen rotation|request a permission"
        "|animate a button|sync in the background|read a barcode",
        "a contact list|a photo gallery|a local cache|a push notification|a map view",
        "Swift|Kotlin|Flutter|React Native|Jetpack Compose",
    ),
    "devops": _area(
        "build a container image|roll back a deployment|rotate log files|set up a health check|store secrets"
        "|run tests on every push|scale by load",
        "a Dockerfile|a pipeline file|a set of environment variables|a Helm chart|a log directory",
        "Kubernetes|Terraform|a GitHub workflow|Ansible|a shell script",
    ),
    "learning": _area(
        "train a classifier|split data into folds|plot a confusion matrix|tune hyper-parameters|balance"
        " classes"
        "|embed sentences|stop training early",
        "a labelled data set|an image folder|a data frame with gaps|a batch of tensors|a feature matrix",
        "PyTorch|scikit-learn|XGBoost|pandas|a learning-rate schedule",
    ),
    "games": _area(
        "move a sprite with the arrow keys|detect collisions|keep a high score|shuffle a deck of cards"
        "|solve a sudoku|generate a dungeon|implement a minimax player",
        "a tile map|a chess board|a deck of cards|a list of enemies|a save file",
        "Unity|Pygame|a state machine|alpha-beta pruning|a physics step",
    ),
    "systems": _area(
        "read a binary file|parse command-line options|allocate memory in an arena|write a ring buffer"
        "|handle a signal|map a file into memory|implement a hash table",
        "a byte buffer|a linked list|a memory pool|a socket|a packed struct",
        "C|Rust|C++ templates|an iterator trait|bit operations",
    ),
    "testing": _area(
        "mock a network call|test a date function|measure coverage|generate random inputs|compare snapshots"
        "|test an error path|speed up a slow suite",
        "a legacy module|a flaky test|a fixture file|a fake clock|an API client",
        "pytest|JUnit|property-based testing|a test double|Jest",
    ),
}

CODE = Family(
    name="code",
    published=2778,
    topics=_AREAS,
    templates=(
        "Write a function `{name}` in {lang} to {task}. The input is {data}.",
        "Using {tool}, write code to {task}, given {data}.",
        "How can I {task} with {tool}? My data is {data}.",
        "Refactor this step so that it uses {tool}: it has to {task} and then {task2}.",
        "Implement a {lang} class that can {task} and {task2}, working on {data}.",
        "Explain the complexity of code that has to {task} on {data} of size {n:100-90000}.",
        "I get an error at line {n:2-400} when I {task} from {data}. What should I check in {tool}?",
        "Compare {tool} and {tool2} for a program that must {task}.",
    ),
    details=(
        "It must run in O(n log n) time.",
        "Handle empty input and return {code:0-9} in that case.",
        "Use type annotations and a docstring.",
        "The code runs on a machine with {memory:1-64} GB of memory, and {data2} does not fit.",
        "Do not use any library besides {tool2}.",
        "Return a list sorted by the second field, largest first.",
        "Also {task2}, and say what happens if {data2} is missing.",
        "Add {tests:2-9} unit tests, one of them with {data2}.",
        "Show how the result changes when {n:2-90} records arrive at once.",
        "Avoid global variables, and keep each function under {lines:10-60} lines.",
        "Explain every step in a comment, as the reader knows {tool2} but not {lang}.",
        "The existing version was written {years:2-15} years ago by somebody who has left, and it takes"
        " {wait:3-90} minutes a run.",
        "Input: {data}, one record per line, at most {n:100-90000} lines. Output: one line per group,"
        " with its size.",
        "Example: for the input {x:1-99} {y:1-99} {z:1-99} the expected output is {r:1-99}, because"
        " equal records count once.",
        "I tried {tool2} first, which worked on a small sample but failed with a time-out on {data}.",
    ),
    most=13,
    shared={
        "lang": words("Python|JavaScript|Go|Java|Rust|C++|TypeScript|Ruby|C#"),
        "name": words(
            "solve|process|handle_rows|run_step|build|collect|transform|update_all|lookup|merge_parts"
        ),
    },
)
