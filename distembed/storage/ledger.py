"""The records of one stage: what is committed, what an interrupted run left, and what this run has written.

A stage is committed when its manifest exists and was written for equal parameters and inputs, and what is committed
of each input has the digest that it had then. Until then every output is announced before its first block, and every
block is recorded when it is on disk, so that a run which was interrupted can be continued. All of this is read from
the disk: no process knows more than another. `Stage` computes and writes the blocks.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distembed.files import PARTIAL
from distembed.storage import arrays, verify
from distembed.storage import manifest as records
from distembed.storage.files import Folder
from distembed.storage.schema import (
    MANIFEST,
    Begun,
    BlockRecord,
    Output,
    OutputRecord,
    Problem,
    StageManifest,
    check_stage,
    fingerprint,
)

Progress = Callable[[int, int], None]


class Ledger:
    """The records of a stage, as they are on disk and as this run knows them."""

    def __init__(
        self,
        folder: Folder,
        name: str,
        *,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, str],
        made_with: Mapping[str, str],
        announced: dict[str, Output],
    ) -> None:
        self.folder = folder
        self.name = check_stage(name)
        self.parameters = dict(parameters)
        self.inputs = {check_stage(each): known for each, known in inputs.items()}
        self.made_with = dict(made_with)
        self.fingerprint = fingerprint(name, parameters, inputs)
        # The commit with these parameters, and these inputs as they are now; None where there is none.
        done = records.commits_of(self.folder, [self.name, *self.inputs])
        found = done.get(self.name)
        fits = (
            found is not None and found.fingerprint == self.fingerprint and not records.replaced(found, done)
        )
        self.manifest = found if fits else None
        self._begun = False
        self._outputs: dict[str, OutputRecord] = {}
        # Recorded blocks that were written or checked in this run, by output; blocks found sound by
        # damaged_blocks.
        self._good: dict[str, dict[int, BlockRecord]] = {}
        self._sound: set[tuple[str, int]] = set()
        # Every output that is announced in the workspace, by the file that announces it.
        self._announced = announced
        self._beginning = threading.Lock()

    @property
    def begun_with(self) -> Mapping[str, str] | None:
        """The versions with which the stage was begun but not finished; None if it has not begun."""
        begun = None if self.manifest is not None else records.read_begun(self.folder, self.name)
        return None if begun is None or begun.fingerprint != self.fingerprint else begun.made_with

    def committed_outputs(self) -> Mapping[str, OutputRecord]:
        """Return the outputs of the commit by name; none where the stage is not committed."""
        return {} if self.manifest is None else self.manifest.outputs

    def keeps(self, spec: Output) -> bool:
        """Return whether a committed stage already holds this output; refuse to add a new one to it."""
        self.folder.check()
        if self.manifest is None:
            return False
        kept = self.committed_outputs().get(spec.name)
        if kept is None or kept.dropped:
            raise ValueError(
                f"Stage {self.name!r} is committed and does not hold {spec.name!r} (or it was dropped): "
                "call reopen() before storing to it."
            )
        return True

    def is_stored(self, name: str) -> bool:
        """Return whether every block of an output is recorded and whole; damaged attributes are written again."""
        if self.manifest is not None:
            record = self.committed_outputs().get(name)
            return record is not None and not record.dropped
        if not self._resumes():
            return False
        if name not in self._outputs:
            found = records.read_output(self.folder, f"{MANIFEST}/{self.name}/{name}/output.json")
            if found is None:
                return False
            self._outputs[name] = self._with_attributes(found)
        return not self.missing(self._outputs[name].spec, None)

    def holds(self, spec: Output) -> bool:
        """Return whether an interrupted run has stored this very output, which is whole."""
        return self.is_stored(spec.name) and self._outputs[spec.name].spec == spec

    def take_over(self, spec: Output, keys: Sequence[str]) -> None:
        """Begin with those items of before that have one of the keys of an output's items, under their new numbers.

        The stage has changed, and all else that it holds is removed. Items that other versions made are not taken.
        """
        before = records.read_output(self.folder, records.output_file(spec))
        begun = records.read_begun(self.folder, self.name)
        if self._resumes() or before is None or begun is None or begun.made_with != self.made_with:
            return
        numbers: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            numbers.setdefault(key, []).append(number)
        there, taken = self.folder.find(spec.location), list[tuple[dict[str, str], BlockRecord]]()
        for item in records.read_blocks(self.folder, before.spec).values():
            if numbers.get(item.key) and item.files.keys() <= there.keys():
                number = numbers[item.key].pop(0)
                old, new = before.spec.block_location(item.index), spec.block_location(number)
                names = {name: new + name.removeprefix(old) for name in item.files}
                files = {names[name]: file for name, file in item.files.items()}
                # Until what is not wanted is gone, a name that the next `Workspace.create` removes.
                aside = {f"{spec.location}/{name.replace('/', '-')}{PARTIAL}": name for name in files}
                for name, place in zip(item.files, aside, strict=True):
                    self.folder.rename(name, place)
                taken.append((aside, replace(item, index=number, files=files)))
        self._begin()
        records.write_output(self.folder, spec, {})
        for aside, item in taken:
            for place, name in aside.items():
                self.folder.rename(place, name)
            records.write_block_record(self.folder, spec, item)

    def announce(self, spec: Output) -> None:
        """Record an output before its first block; another output of the same name and another shape is removed."""
        self._begin()
        records.check_place(self.folder, spec, self._announced)
        kept = records.read_output(self.folder, records.output_file(spec))
        if kept is None or kept.spec != spec:
            for old in {spec, spec if kept is None else kept.spec}:
                records.remove_output(self.folder, old)
            self._good.pop(spec.name, None)
            records.write_output(self.folder, spec, {})
            kept = OutputRecord(spec, ())
        self._outputs[spec.name] = self._with_attributes(kept)

    def announced(self) -> list[str]:
        """Return the names of the outputs that this run or an interrupted one has begun."""
        return list(records.announced(self.folder, self.name)) if self._resumes() else []

    def forget(self, name: str) -> None:
        """Remove an output that is not committed, with all that is known of it."""
        found = records.read_output(self.folder, f"{MANIFEST}/{self.name}/{name}/output.json")
        if found is not None:
            records.remove_output(self.folder, found.spec)
        self._outputs.pop(name, None)
        self._good.pop(name, None)

    def missing(self, spec: Output, progress: Progress | None) -> list[int]:
        """Return the blocks to compute, after checking the files of the recorded ones."""
        if spec.name not in self._good:
            found = records.read_blocks(self.folder, spec)
            fresh = tuple(block for block in found.values() if (spec.name, block.index) not in self._sound)
            todo = verify.checks(self.folder, OutputRecord(spec, fresh), decode=False)
            bad = {problem.block for problem in verify.run_checks(todo)}
            self._good[spec.name] = {index: block for index, block in found.items() if index not in bad}
        good = self._good[spec.name]
        if progress is not None:
            progress(len(good), len(spec.row_blocks))
        return [index for index in range(len(spec.row_blocks)) if index not in good]

    def recorder(self, spec: Output, progress: Progress | None) -> Callable[[BlockRecord], None]:
        """Return the function that is called with each block as it completes."""
        good = self._good.setdefault(spec.name, {})

        def record(block: BlockRecord) -> None:
            records.write_block_record(self.folder, spec, block)
            good[block.index] = block
            if progress is not None:
                progress(len(good), len(spec.row_blocks))

        return record

    def record(self, name: str) -> OutputRecord:
        """Return an output with all its blocks.

        Raises
        ------
        ValueError
            If it is unknown or incomplete.
        """
        if name in self.committed_outputs():
            return self.committed_outputs()[name]
        if name not in self._outputs:
            raise ValueError(f"Stage {self.name!r} has stored no output {name!r} in this run.")
        announced, good = self._outputs[name], self._good.get(name, {})
        n_blocks = len(announced.spec.row_blocks)
        if len(good) != n_blocks:
            raise ValueError(
                f"Output {name!r} of stage {self.name!r} has {len(good)} of {n_blocks} blocks: store it."
            )
        return OutputRecord(announced.spec, tuple(good[index] for index in sorted(good)), announced.files)

    def damaged_blocks(self, progress: Progress | None = None) -> list[Problem]:
        """Return the problems of the files of the commit, and keep in mind which blocks have none."""
        kept = [record for record in self.committed_outputs().values() if not record.dropped]
        todo = [check for record in kept for check in verify.checks(self.folder, record, decode=False)]
        found = verify.run_checks(todo, progress)
        bad = {(problem.output, problem.block) for problem in found}
        self._sound = {(check.output.name, check.block) for check in todo} - bad
        return found

    def reopen(self, damaged: Sequence[Problem] | None) -> None:
        """Withdraw the commit, keeping the records of all blocks but the damaged ones, which are looked for if None."""
        self.folder.check()
        found = self.damaged_blocks() if damaged is None else damaged
        bad = {(problem.output, problem.block) for problem in found}
        for record in self.committed_outputs().values():
            self._reopen_output(record, {index for output, index in bad if output == record.spec.name})
        self._write_begun()
        self.folder.remove(records.manifest_file(self.name))
        self.manifest, self._begun = None, False
        # What this object knew from before the damage counts no more.
        self._good, self._outputs = {}, {}

    def commit(self, facts: Mapping[str, Any]) -> StageManifest:
        """Write the manifest of what this run has stored, and remove the stages that it leaves without their input."""
        self._begin()
        outputs = {name: self.record(name) for name in sorted(self._outputs)}
        self._forget_others(set(outputs))
        begun = records.read_begun(self.folder, self.name)
        if begun is None:  # it was removed with the commit of an input
            raise ValueError(
                f"Stage {self.name!r} cannot be committed, because an input of it was replaced since it began: store "
                "it again."
            )
        manifest = StageManifest(
            self.name,
            self.fingerprint,
            self.parameters,
            self.inputs,
            outputs,
            dict(facts),
            self.made_with,
            begun.input_digests,
        )
        self.folder.sync(verify.lasting_files(manifest))
        records.write_manifest(self.folder, manifest)
        self._remove_outdated()
        self.manifest = manifest
        return manifest

    def discard(self) -> None:
        """Remove every output and record of the stage and of the stages that depend on it."""
        self.folder.check()
        for stage in [*records.dependents(self.folder, self.name), self.name]:
            records.remove_stage(self.folder, stage)
        self._forget()

    def _forget(self) -> None:
        """Discard what this object knows of a commit and of blocks."""
        self.manifest, self._begun = None, False
        self._outputs, self._good, self._sound = {}, {}, set()

    def _resumes(self) -> bool:
        """Return whether an interrupted run of this stage left usable records."""
        if (
            not self._begun and self.begun_with == self.made_with
        ):  # never False again, which another thread has set
            self._begun = True
        return self._begun

    def _write_begun(self) -> None:
        digests = records.contents(self.folder, self.inputs)
        begun = Begun(self.fingerprint, self.parameters, self.inputs, self.made_with, digests, seconds=0.0)
        self.folder.write(records.begun_file(self.name), records.begun_text(begun))

    def _begin(self) -> None:
        with self._beginning:  # threads of one stage may begin at once
            if not self._resumes():
                records.remove_stage(self.folder, self.name)
                self._forget()
                self._write_begun()
                self._begun = True

    def _with_attributes(self, announced: OutputRecord) -> OutputRecord:
        """Write the attributes of an announced array where they are absent or damaged, and return its record."""
        spec = announced.spec
        if not spec.is_array:
            return announced
        if announced.files and not verify.run_checks(verify.own_checks(self.folder, announced)):
            return announced
        written = replace(announced, files=arrays.write_attributes(self.folder, spec))
        records.write_output(self.folder, spec, written.files)
        return written

    def _reopen_output(self, record: OutputRecord, damaged: set[int]) -> None:
        """Restore the records of an output from the manifest, without its damaged blocks."""
        spec = record.spec
        others_made_it = self.manifest is not None and self.manifest.made_with != self.made_with
        if record.dropped or others_made_it:
            records.remove_output(self.folder, spec)
            return
        records.write_output(self.folder, spec, record.files)
        for block in record.blocks:
            if block.index in damaged:
                self.folder.remove(records.block_file(spec, block.index))
            else:
                records.write_block_record(self.folder, spec, block)

    def _forget_others(self, kept: set[str]) -> None:
        """Remove outputs that an interrupted run announced and this one did not store."""
        for name, record in records.announced(self.folder, self.name).items():
            if name not in kept:
                records.remove_output(self.folder, record.spec)

    def _remove_outdated(self) -> None:
        """Remove the stages that rest on content which this commit replaced."""
        outdated = records.outdated(self.folder)
        known = records.commits_of(self.folder, outdated)
        if any(each.inputs.get(self.name) == self.fingerprint for each in known.values()):
            warnings.warn(
                f"Stage {self.name!r} was repaired, but its content differs from before: another processor or library "
                f"version? The stages that depend on it ({', '.join(outdated)}) are removed: run the job again to "
                "compute them.",
                stacklevel=4,
            )
        for stage in outdated:
            records.remove_stage(self.folder, stage)
