/**
 * What comes in one turn of the event loop is worked on in stages: each is done for all requests of the turn before the next begins.
 * So the code of a stage is still in the processor's caches for the second request, and the kernel's for the second of two like
 * system calls. One request after the other through all of them costs a quarter more where many come at once.
 */

/** In the order in which they run, behind all reads of the turn; SharedTurn may begin requests earlier. */
const ORDER = [
  'read answers',
  'pass heads',
  'begin requests',
  'send answers',
  'send requests',
  'write requests',
  'record',
  'look',
] as const

/** Some are missing where not all of the gateway is loaded. */
const stages: (Pick<TurnStage<never>, 'isDue' | 'run'> | undefined)[] = ORDER.map(() => undefined)
let isScheduled = false

export class TurnStage<Item> {
  readonly #act: (item: Item) => void
  #due: Item[] = []

  constructor(name: (typeof ORDER)[number], act: (item: Item) => void) {
    this.#act = act
    stages[ORDER.indexOf(name)] = this
  }

  get isDue(): boolean {
    return this.#due.length > 0
  }

  /** Acts on the item in this turn; in the next where its stage has begun, or a later one. */
  add(item: Item): void {
    this.#due.push(item)
    if (isScheduled) return
    isScheduled = true
    setImmediate(runStages)
  }

  run(): void {
    const due = this.#due
    if (due.length === 0) return
    this.#due = []
    for (const item of due) this.#act(item)
  }
}

/** Does at once what is due, for who cannot wait until the turn ends. */
export function runStages(): void {
  // What is added for a later stage needs no turn of its own.
  isScheduled = true
  try {
    for (const stage of stages) stage?.run()
  } finally {
    isScheduled = stages.some((stage) => stage?.isDue)
    if (isScheduled) setImmediate(runStages)
  }
}

/** Looks for what is late: what came while the process stood still is acted on before it is missed. */
export const looks = new TurnStage<() => void>('look', (look) => look())

/** Whole answers that were decided in this turn. */
export const sendAnswers = new TurnStage<{ flush(): void }>('send answers', (answer) =>
  answer.flush(),
)
