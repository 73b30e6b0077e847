/** Messages to one worker: bounded, since one that stands still must not fill this process with what it is to hear. */
import type { ChildProcess } from 'node:child_process'
import type { ToWorker } from './messages.ts'

const UNTAKEN_MESSAGES = 64

export class Outbox {
  readonly #child: ChildProcess
  /** Not handed over yet. Written by tell. */
  #untaken = 0
  /** A notice was left out. Written by notify and tell. */
  #hasMissed = false

  constructor(child: ChildProcess) {
    this.#child = child
  }

  get isOpen(): boolean {
    return this.#child.connected && this.#untaken <= UNTAKEN_MESSAGES
  }

  /** A worker that has gone is told nothing more; its end is seen on its own. */
  tell(message: ToWorker): void {
    if (!this.#child.connected) return
    this.#untaken++
    this.#child.send(message, () => {
      this.#untaken--
      if (this.#untaken > 0 || !this.#hasMissed) return
      this.#hasMissed = false
      this.tell({ kind: 'missed' })
    })
  }

  /** Left out while the worker does not take its messages, and made up for with `missed`. */
  notify(message: ToWorker): void {
    if (this.isOpen) this.tell(message)
    else this.#hasMissed = true
  }
}
