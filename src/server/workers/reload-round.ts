/** A configuration that all workers take together, or none: live workers, and those that are started meanwhile. */
import type { Config } from '../../config/config.ts'
import type { WorkerProcess } from './worker-process.ts'

type Member = Pick<WorkerProcess, 'number' | 'prepare' | 'settle'>

/** The first is 1. */
let rounds = 0

export class ReloadRound {
  readonly #number = ++rounds
  readonly #config: Config
  readonly #members = new Set<Member>()
  /** Number of members whose answer is awaited. Written by join. */
  #awaited = 0
  readonly #prepared = Promise.withResolvers<void>()
  /** Resolves when all members are prepared; rejects with the first fault. */
  readonly prepared = this.#prepared.promise

  constructor(config: Config, members: Iterable<Member>) {
    this.#config = config
    this.prepared.catch(() => undefined)
    for (const member of members) this.join(member)
    if (this.#awaited === 0) this.#prepared.resolve()
  }

  /** Adds a worker; one that starts before the round is over joins as well, as it was given the old configuration. */
  join(member: Member): void {
    this.#members.add(member)
    this.#awaited++
    void member.prepare(this.#number, this.#config).then((fault) => {
      this.#awaited--
      if (fault !== undefined) this.#prepared.reject(new Error(`worker ${member.number}: ${fault}`))
      else if (this.#awaited === 0) this.#prepared.resolve()
    })
  }

  /** Ends the round for all its members. */
  settle(kind: 'commit' | 'abort'): void {
    for (const member of this.#members) member.settle(kind, this.#number)
  }
}
