// Questions that must be answered first: the browser's own dialog keeps focus and keyboard right.

import { useEffect, useLayoutEffect, useRef, useState, type ReactNode, type RefObject } from "react";
import { asProblem, type Problem } from "../lib/api";
import { Button, Field, fieldLook, Trouble, type Look } from "./basics";

/** Keeps an open dialog open. Cancelling its `cancel` event is not enough: a browser allows that once, and closes the dialog on the next
 * Escape. So Escape is swallowed before the browser sees it, wherever the focus is, and `closedby` switches off the other ways to close
 * it (the back gesture of a phone) in browsers that know it. */
function useKeptOpen(dialog: RefObject<HTMLDialogElement | null>, isKept: boolean): void {
  useEffect(() => {
    if (!isKept) return;
    const shown = dialog.current!;
    const swallow = (event: KeyboardEvent) => event.key === "Escape" && event.preventDefault();
    shown.setAttribute("closedby", "none");
    window.addEventListener("keydown", swallow, true);
    return () => {
      shown.removeAttribute("closedby");
      window.removeEventListener("keydown", swallow, true);
    };
  }, [dialog, isKept]);
}

/** `isBusy`: it stays until that is over. */
export function Dialog({ title, children, isBusy = false, onClose }: { title: string; children: ReactNode; isBusy?: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = dialog.current!;
    shown.showModal();
    return () => {
      shown.close(); // and not just taken away: so the browser puts focus back to where it was,
      if (document.activeElement === document.body) document.querySelector("h1")?.focus(); // unless that is gone
    };
  }, []);
  useKeptOpen(dialog, isBusy);
  const onClosed = () => {
    if (dialog.current?.open !== false) return;
    if (isBusy) dialog.current.showModal(); // closed all the same, in a browser without `closedby`
    else onClose();
  };
  return (
    <dialog ref={dialog} aria-label={title} onCancel={(event) => isBusy && event.preventDefault()} onClose={onClosed}
      className="m-auto w-[min(32rem,calc(100vw-2rem))] rounded-xl border border-line bg-panel p-5 text-ink shadow-xl backdrop:bg-black/50">
      <h2 className="mb-3 text-base font-semibold break-words">{title}</h2>
      {children}
    </dialog>
  );
}

/** "Are you sure?"; `look` is "main" where nothing is lost by it; with `word`, that has to be typed first. It cannot be left while it is done: what fails then would be told to nobody. */
export function Confirm({ title, children, action, look = "danger", word, onConfirm, onClose }: {
  title: string;
  children: ReactNode;
  action: string;
  look?: Look;
  word?: string;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}) {
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const confirm = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} isBusy={isBusy} onClose={onClose}>
      <form className="flex flex-col gap-4" onSubmit={(event) => { event.preventDefault(); void confirm(); }}>
        <div className="text-sm text-soft">{children}</div>
        {word !== undefined && (
          <Field label={`Type ${word} to go on`}>
            <input className={fieldLook} value={typed} autoComplete="off" onChange={(event) => setTyped(event.target.value)} />
          </Field>
        )}
        {problem && <Trouble problem={problem} />}
        <div className="flex justify-end gap-2">
          <Button disabled={isBusy} onClick={onClose}>Cancel</Button>
          <Button type="submit" look={look} disabled={isBusy || (word !== undefined && typed !== word)}>{action}</Button>
        </div>
      </form>
    </Dialog>
  );
}
