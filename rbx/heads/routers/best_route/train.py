"""Fine-tuning BEST-Route's classifier end to end with torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.heads.routers.best_route.classifier import Classifier
from rbx.heads.routers.best_route.router import BestRoute
from rbx.heads.routers.best_route.starting_point import StartingPoint, starting_point
from rbx.heads.routers.best_route.token_reader import TokenReader
from rbx.heads.routers.task import RouterTask

Ints = NDArray[np.int64]
Rows = list[NDArray[np.int64]]

HELD_OUT = 0.1


@dataclass(frozen=True)
class Recipe:
    """How it is fine-tuned. ``threads`` is fixed whatever the machine has, since sums depend on it; one alone
    also goes on where other work keeps the cores busy, while several wait for each other."""

    most_passes: int = 3
    patience: int = 1
    batch: int = 16
    encoder_step: float = 3e-5
    layer_step: float = 1e-3
    decay: float = 0.01
    warm_up: float = 0.1
    threads: int = 1


def train(task: RouterTask, seed: int, recipe: Recipe = Recipe()) -> BestRoute:
    """Cross-entropy against the best model of each prompt, stopped by the loss on a tenth of the prompts.

    The best model is that of ``best_models``. Raises ``MissingExtraError`` without torch, and ``BundleError``
    where that knows too few.
    """
    start = starting_point(task.encoder_path)
    rows, best = best_models(task)
    order = np.random.default_rng([seed, 29]).permutation(len(rows))
    cut = max(1, round(HELD_OUT * len(rows)))
    reader = TokenReader(start.tokenizer, start.architecture.max_tokens)
    ids = reader.ids([task.texts[row] for row in rows.tolist()])
    tuning = _Tuning(start, ids, best, task.n_models, recipe, seed)
    told = tuning.run(order[cut:], order[:cut])
    share = np.bincount(best[order[cut:]], minlength=task.n_models) / (len(rows) - cut)
    return BestRoute(
        models=task.models,
        classifier=tuning.classifier(),
        cheapest=task.models[int(task.cheapest_first[0])],
        training={
            "encoder": start.name,
            "encoder_digest": start.digest,
            "ties_to": task.ties_to,
            **asdict(recipe),
            **told,
            "held_out_prompts": int(cut),
            "held_out_majority": float(np.mean(best[order[:cut]] == share.argmax())),
            "label_share": dict(zip(task.models, share.tolist(), strict=True)),
        },
    )


def best_models(task: RouterTask) -> tuple[Ints, Ints]:
    """Rows with every model's label (n,), and the model of each row's highest (n,): else nobody knows it.

    Of several it is ``task.ties_to`` if that is one of them, else the cheapest. Raises ``BundleError`` where
    fewer than two rows have all labels, and where ``ties_to`` is no model of the task.
    """
    rows = np.flatnonzero(~np.isnan(task.score).any(axis=1)).astype(np.int64)
    if len(rows) < 2:
        raise BundleError(
            "fewer than two training prompts have a label of every model: nothing tells which answers best"
        )
    order = task.cheapest_first
    if task.ties_to is not None:
        if task.ties_to not in task.models:
            raise BundleError(f"ties go to {task.ties_to!r}, which is none of {', '.join(task.models)}")
        first = task.models.index(task.ties_to)
        order = np.concatenate([[first], order[order != first]])
    return rows, order[task.score[rows][:, order].argmax(axis=1)]


class _Tuning:
    """The module under way, its optimiser, and the best state so far."""

    def __init__(
        self, start: StartingPoint, ids: Rows, best: Ints, n_models: int, recipe: Recipe, seed: int
    ) -> None:
        import torch

        self._start, self._ids, self._recipe = start, ids, recipe
        self._best = torch.from_numpy(best)
        self._rng = np.random.default_rng([seed, 31])
        torch.manual_seed(seed)
        encoder = start.encoder
        dim = int(encoder.config.hidden_size)
        self._module = torch.nn.ModuleDict({"encoder": encoder, "layer": torch.nn.Linear(dim, n_models)})
        groups = [
            {"params": encoder.parameters(), "lr": recipe.encoder_step},
            {"params": self._module["layer"].parameters(), "lr": recipe.layer_step},
        ]
        self._optimiser = torch.optim.AdamW(groups, weight_decay=recipe.decay)

    def run(self, kept: Ints, held: Ints) -> dict[str, Any]:
        """Passes over ``kept`` until the loss on ``held`` no longer falls; the best state stays."""
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(self._recipe.threads)
        try:
            return self._passes(kept, held)
        finally:
            torch.set_num_threads(before)

    def _passes(self, kept: Ints, held: Ints) -> dict[str, Any]:
        losses, rights = [], []
        best_state, best_pass = copy.deepcopy(self._module.state_dict()), 0
        steps = self._recipe.most_passes * -(-len(kept) // self._recipe.batch)
        schedule = self._schedule(steps)
        for number in range(1, self._recipe.most_passes + 1):
            self._module.train()
            for batch in self._batches(kept):
                self._step(batch)
                schedule.step()
            loss, right = self._judged(held)
            losses.append(loss)
            rights.append(right)
            if loss <= min(losses):
                best_state, best_pass = copy.deepcopy(self._module.state_dict()), number
            elif number - best_pass >= self._recipe.patience:
                break
        self._module.load_state_dict(best_state)
        self._module.eval()
        return {
            "passes": len(losses),
            "best_pass": best_pass,
            "held_out_loss": losses,
            "held_out_accuracy": rights,
        }

    def classifier(self) -> Classifier:
        """What was learnt, as it serves."""
        tensors = {
            name: np.ascontiguousarray(tensor.detach().float().numpy())
            for name, tensor in self._start.encoder.state_dict().items()
            if name.endswith((".weight", ".bias"))
        }
        layer = self._module["layer"]
        return Classifier(
            architecture=self._start.architecture,
            tensors=tensors,
            weights=np.ascontiguousarray(layer.weight.detach().numpy().T),
            offset=layer.bias.detach().numpy().copy(),
            tokenizer=self._start.tokenizer,
        )

    def _schedule(self, steps: int) -> Any:
        import torch

        warm = max(1, round(self._recipe.warm_up * steps))
        return torch.optim.lr_scheduler.LambdaLR(
            self._optimiser, lambda at: min((at + 1) / warm, max(0.0, (steps - at) / max(1, steps - warm)))
        )

    def _batches(self, rows: Ints) -> Iterator[Ints]:
        """All rows once, in batches of like length, so that little is computed for padding."""
        size = self._recipe.batch
        shuffled = self._rng.permutation(rows)
        batches = []
        for at in range(0, len(shuffled), 16 * size):
            pile = shuffled[at : at + 16 * size]
            pile = pile[np.argsort([len(self._ids[row]) for row in pile.tolist()], kind="stable")]
            batches += [pile[part : part + size] for part in range(0, len(pile), size)]
        for which in self._rng.permutation(len(batches)).tolist():
            yield batches[which]

    def _step(self, batch: Ints) -> None:
        import torch

        self._optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(self._logits(batch), self._best[batch])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._module.parameters(), 1.0)
        self._optimiser.step()

    def _judged(self, held: Ints) -> tuple[float, float]:
        """Mean cross-entropy and accuracy on ``held``."""
        import torch

        self._module.eval()
        parts = np.array_split(held, -(-len(held) // self._recipe.batch))
        with torch.no_grad():
            logits = torch.cat([self._logits(part) for part in parts])
            loss = torch.nn.functional.cross_entropy(logits, self._best[held])
            right = (logits.argmax(dim=1) == self._best[held]).float().mean()
        return float(loss), float(right)

    def _logits(self, batch: Ints) -> Any:
        import torch

        ids, mask = _padded([self._ids[row] for row in batch.tolist()])
        mask_of = torch.from_numpy(mask)
        states = self._module["encoder"](
            input_ids=torch.from_numpy(ids), attention_mask=mask_of
        ).last_hidden_state
        if self._start.architecture.pooling == "first":
            return self._module["layer"](states[:, 0])
        weight = mask_of[:, :, None].float()
        return self._module["layer"]((states * weight).sum(dim=1) / weight.sum(dim=1))


def _padded(rows: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Rows of ids filled up with zeros, and which of them are real, (rows, longest) each."""
    longest = max(len(row) for row in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row)], mask[at, : len(row)] = row, 1
    return ids, mask
