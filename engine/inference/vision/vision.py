"""What a model sees: pictures as tokens of a prompt, and their features as the model reads these.

The keys of a prompt with pictures have words of their digests, with a bit that no token id has, in
place of the placeholders' ids: caches, memory and files compare pictures as they compare tokens.
"""

import operator
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import mlx.core as mx
import numpy as np

from engine.errors import InvalidRequest, PromptTooLong
from engine.inference.cache.index import PICTURE_BIT
from engine.inference.vision.pictures import decoded, digest_of
from engine.inference.vision.positions import grid_positions
from engine.inference.vision.text_model import (
    Reading,
    patch_embeddings,
    patch_masks,
    patch_ropes,
)
from engine.inference.vision.tower import Features, Tower, read_processor
from engine.library.memory_need import PICTURE_BYTES
from engine.values.request import GenerationRequest, Picture

# Of pictures of recent requests as the processor made them, and of their features: an agent's next
# turn has the same ones.
_MAX_KEPT_BYTES = PICTURE_BYTES // 2
# Pictures whose tokens are known, some kilobytes each: those of a long conversation.
_MAX_KNOWN = 256


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPicture:
    """A picture of a prompt.

    Attributes:
        owner: The name of its owner; nothing of one is used for another.
        picture: Its file; the arrays that its processor makes of it take up to 40 MB.
        text: What stands for it in a prompt, with a placeholder for each of its ``tokens``.
        grid: Its tokens in time, height and width, where positions have three dimensions.
    """

    owner: str
    digest: bytes
    picture: Picture
    text: str
    tokens: int
    grid: tuple[int, int, int] | None

    @property
    def key(self) -> tuple[str, bytes]:
        return self.owner, self.digest


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPictures:
    """The pictures of a prompt.

    Attributes:
        token_indices: For each picture, the indices of its tokens.
        keys: The prompt's tokens, with words of digests in place of the placeholders.
        delta: How far positions behind the prompt are from the number of tokens.
        positions: (3, tokens), where the model has positions in three dimensions.
        features: Those of the pictures that are read next, by their numbers.
        processing: The pictures whose arrays are made on another thread, by their numbers.
    """

    pictures: tuple[PreparedPicture, ...]
    token_indices: tuple[np.ndarray, ...]
    keys: list[int]
    delta: int = 0
    positions: np.ndarray | None = None
    features: dict[int, Features] = field(default_factory=dict, init=False)
    processing: "dict[int, Future[tuple[PreparedPicture, dict[str, Any]]]]" = field(
        default_factory=dict, init=False
    )


class Vision:
    """The pictures that one loaded model sees.

    Args:
        folder: The model's folder, in which its processor is read when it is first needed.
        config: Its configuration.
        model: The text model of mlx-lm, which is changed so that it reads pictures.
        tower: Its tower.
    """

    def __init__(self, folder: Path, config: dict[str, Any], model: Any, tower: Tower) -> None:
        self._folder, self._tower = folder, tower
        # Decoders take up to 200 MB, and processors are not made for several threads. The engine
        # thread never waits for this lock.
        self._processing = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "fullstop-pictures")
        self._loaded: Any = None
        self.reading = Reading()
        self.reading.special = tower.special
        self._lock = threading.Lock()  # of the next two
        self._known: OrderedDict[tuple[str, bytes], PreparedPicture] = OrderedDict()
        self._pixels: OrderedDict[tuple[str, bytes], dict[str, Any]] = OrderedDict()
        self._features: OrderedDict[tuple[str, bytes], Features] = OrderedDict()
        # Two prompts may wait for one picture.
        self._incomplete: WeakValueDictionary[tuple[str, bytes], Features] = WeakValueDictionary()
        text, vision = config.get("text_config") or config, config["vision_config"]
        rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
        self._has_grid = "mrope_section" in rope
        self._merge = int(vision.get("spatial_merge_size") or 1)
        patch_embeddings(model, self.reading, len(vision.get("deepstack_visual_indexes") or ()))
        self.sees_both_ways = text.get("use_bidirectional_attention") == "vision"
        if self.sees_both_ways:
            patch_masks(model, self.reading)
        if self._has_grid:
            patch_ropes(model, self.reading, rope["mrope_section"], tower.family.rope)

    @property
    def token(self) -> int:
        """The id of the placeholder in prompts."""
        return self._tower.token

    # -- any thread --------------------------------------------------------------------------

    def prepare(self, request: GenerationRequest, context: int) -> list[PreparedPicture]:
        """Return the pictures of a prompt in their order; raises ``InvalidRequest``."""
        given = [(picture, "prompt") for picture in request.pictures]
        for index, message in enumerate(request.messages):
            given += [(picture, f"messages[{index}]") for picture in message.pictures]
        prepared: list[PreparedPicture] = []
        tokens = 0
        for picture, name in given:
            owner = request.cache_owner.name
            prepared.append(self._prepare(owner, picture, picture.field or name))
            tokens += prepared[-1].tokens
            if tokens >= context:
                raise PromptTooLong(name.partition("[")[0], tokens, context)
        return prepared

    @property
    def mark(self) -> str:
        """The text of a template for a picture."""
        return str(getattr(self._processor, self._tower.family.mark))

    def _prepare(self, owner: str, picture: Picture, field: str) -> PreparedPicture:
        key = owner, digest_of(picture)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return replace(known, picture=picture)
        found, pixels = self._process(owner, picture, field)
        with self._lock:
            self._known[key] = replace(found, picture=replace(picture, data=b""))
            self._pixels[key] = pixels
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
            size = sum(map(_pixel_bytes, self._pixels.values()))
            while size > _MAX_KEPT_BYTES and len(self._pixels) > 1:
                size -= _pixel_bytes(self._pixels.popitem(last=False)[1])
        return found

    @property
    def _processor(self) -> Any:
        if self._loaded is None:
            self._loaded = read_processor(self._folder)
        return self._loaded

    def _process(
        self, owner: str, picture: Picture, field: str
    ) -> tuple[PreparedPicture, dict[str, Any]]:
        """Return a picture, and the arrays that the tower reads; raises ``InvalidRequest``."""
        with self._processing:
            image = decoded(picture, field)
            try:
                ids, pixels = self._arrays_of(image)
            except Exception as error:  # processors raise whatever their libraries do
                why = " ".join(str(error).split())[:160] or type(error).__name__
                reason = f"the processor of this model cannot read the picture: {why}"
                raise InvalidRequest(field, reason) from error
        grid = None
        if self._has_grid:
            frames, height, width = np.array(pixels["image_grid_thw"]).ravel().tolist()
            grid = (frames, height // self._merge, width // self._merge)
        text = self._processor.tokenizer.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        tokens = ids.count(self.token)
        return PreparedPicture(owner, digest_of(picture), picture, text, tokens, grid), pixels

    def _arrays_of(self, image: Any) -> tuple[list[int], dict[str, Any]]:
        made = self._processor(text=[self.mark], images=[image], add_special_tokens=False)
        values = {name: value for name, value in made.items() if value is not None}
        ids = np.array(values.pop("input_ids")).ravel().tolist()
        if self.token not in ids:
            raise ValueError("it makes no tokens of it")
        return ids, {
            name: np.array(value) if isinstance(value, mx.array) else value
            for name, value in values.items()
            if name not in ("attention_mask", "token_type_ids", "mm_token_type_ids")
        }

    def expand(self, text: str, placeholders: Sequence[str]) -> str | None:
        """Return a rendered prompt with the texts of its pictures; None where it lacks some.

        Each mark that the template has written stands for the next picture.
        """
        first, *others = text.split(self.mark)
        if len(others) != len(placeholders):
            return None
        return first + "".join(map(operator.add, placeholders, others))

    def locate(
        self, tokens: Sequence[int], pictures: Sequence[PreparedPicture]
    ) -> PlacedPictures | None:
        """Return where the pictures are among a prompt's tokens; None where they do not match."""
        ids = np.array(tokens, np.int64)
        found = np.flatnonzero(ids == self.token)
        if len(found) != sum(picture.tokens for picture in pictures):
            return None
        ends = np.cumsum([picture.tokens for picture in pictures])[:-1]
        indices = np.split(found, ends)
        for at, picture in zip(indices, pictures, strict=True):
            digest_words = np.frombuffer(picture.digest, ">u4").astype(np.int64) | PICTURE_BIT
            ids[at] = digest_words[np.arange(len(at)) % len(digest_words)]
        placed = PlacedPictures(tuple(pictures), tuple(indices), ids.tolist())
        if not self._has_grid:
            return placed
        spans = [
            (int(at[0]), picture.tokens, picture.grid)
            for at, picture in zip(indices, pictures, strict=True)
            if picture.grid is not None
        ]
        positions, delta = grid_positions(len(ids), spans)
        return replace(placed, positions=positions, delta=delta)

    def ids_of(self, keys: Sequence[int]) -> list[int]:
        """Return the token ids of a prompt's keys."""
        return [self.token if key >= PICTURE_BIT else key for key in keys]

    # -- the engine thread -------------------------------------------------------------------

    def run_tower(self, placed: PlacedPictures, start: int, end: int, max_s: float) -> bool:
        """Run the tower for one picture among the next tokens; return whether it had to.

        Beside running answers it takes several steps, each of about ``max_s``. The features are
        kept with the prompt until they are read, whatever other prompts are shown meanwhile.
        """
        for number, (indices, picture) in enumerate(
            zip(placed.token_indices, placed.pictures, strict=True)
        ):
            if indices[-1] < start:
                placed.features.pop(number, None)
            elif indices[0] < end:
                if number not in placed.features:
                    found = self._find_features(placed, number, max_s)
                    if found is None:
                        return True
                    placed.features[number] = found
                features = placed.features[number]
                if not features.is_complete:
                    if features.compute(max_s):
                        self._keep(picture.key, features)
                    return True
        return False

    def _find_features(self, placed: PlacedPictures, number: int, max_s: float) -> Features | None:
        """Return the features of a picture; None while its arrays are made on another thread."""
        picture = placed.pictures[number]
        if (complete := self._features.get(picture.key)) is not None:
            self._features.move_to_end(picture.key)
            return complete
        if (incomplete := self._incomplete.get(picture.key)) is not None:
            return incomplete
        with self._lock:
            pixels = self._pixels.get(picture.key)
        if pixels is None:
            self._process_ahead(placed, number)
            if not wait([placed.processing[number]], max_s).done:
                return None
            pixels = placed.processing.pop(number).result()[1]
        arrays = {
            name: mx.array(value) if isinstance(value, np.ndarray) else value
            for name, value in pixels.items()
        }
        features = self._incomplete[picture.key] = self._tower.features(picture.tokens, arrays)
        following = number + 1
        if following < len(placed.pictures):
            key = placed.pictures[following].key
            with self._lock:
                is_known = key in self._pixels or key in self._features or key in self._incomplete
            if not is_known:
                self._process_ahead(placed, following)
        return features

    def _process_ahead(self, placed: PlacedPictures, number: int) -> None:
        picture = placed.pictures[number]
        if number not in placed.processing:
            placed.processing[number] = self._pool.submit(
                self._process, picture.owner, picture.picture, "messages"
            )

    def _keep(self, key: tuple[str, bytes], features: Features) -> None:
        self._features[key] = features
        size = sum(each.size_bytes for each in self._features.values())
        while size > _MAX_KEPT_BYTES and len(self._features) > 1:
            size -= self._features.popitem(last=False)[1].size_bytes

    def forget(self, owner: str) -> None:
        """Drop the cached pictures of an owner."""
        with self._lock:
            for kept in (self._known, self._pixels, self._features):
                for key in [key for key in kept if key[0] == owner]:
                    del kept[key]

    @contextmanager
    def shown(self, placed: PlacedPictures | None, start: int, end: int) -> Iterator[None]:
        """Let the model's next pass read the pictures among tokens of one row."""
        if placed is None:
            yield
            return
        reading = self.reading
        if self.sees_both_ways:
            blocks = np.full(end - start, -1)
            for number, indices in enumerate(placed.token_indices):
                low, high = np.searchsorted(indices, (start, end))
                blocks[indices[low:high] - start] = number
            reading.blocks = mx.array(blocks) if (blocks >= 0).any() else None
        if placed.positions is not None:
            reading.positions = mx.array(placed.positions[:, None, start:end])
        self._put_features(placed, start, end)
        try:
            yield
        finally:
            reading.clear()

    def _put_features(self, placed: PlacedPictures, start: int, end: int) -> None:
        values: Any = None
        added: list[Any] = []
        mask = np.zeros((1, end - start, 1), bool)
        for number, indices in enumerate(placed.token_indices):
            low, high = np.searchsorted(indices, (start, end))
            if low == high:
                continue
            features = placed.features[number]
            if values is None:
                values = mx.zeros(
                    (1, end - start, features.values.shape[-1]), features.values.dtype
                )
                added = [mx.zeros_like(values) for _ in features.added]
            at = indices[low:high] - start
            mask[0, at] = True
            chunk = mx.array(at)
            values[:, chunk] = features.values[int(low) : int(high)]
            for layer, part in zip(added, features.added, strict=True):
                layer[:, chunk] = part[int(low) : int(high)]
        if values is not None:
            self.reading.features = values, mx.array(mask)
            self.reading.added = added

    def whole_end(self, placed: PlacedPictures, start: int, end: int) -> int:
        """Return where a pass from ``start`` ends that cuts no picture whose tokens see each other.

        It ends before the picture at ``end``, or behind that where it begins with it.
        """
        if self.sees_both_ways:
            for indices in placed.token_indices:
                if indices[0] < end <= indices[-1]:
                    return int(indices[0]) if indices[0] > start else int(indices[-1]) + 1
        return end

    def readable(self, ids: Sequence[int]) -> list[int]:
        """Return token ids as the text model looks them up."""
        token, placeholder = self._tower.token, self._tower.placeholder
        return [placeholder if each == token else each for each in ids]

    def set_deltas(self, deltas: Sequence[int]) -> None:
        """Note how far the positions of each row are from the number of its tokens."""
        if self._has_grid:
            self.reading.deltas = mx.array(list(deltas)) if any(deltas) else None


def _pixel_bytes(pixels: dict[str, Any]) -> int:
    return sum(int(getattr(value, "nbytes", 0)) for value in pixels.values())
