/** Errors of a store that cannot be asked, or does not answer, whichever store it is. */

/** The store is away or of no use; this never means that quota is used up. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
  readonly reason: 'timeout' | 'error'

  constructor(reason: 'timeout' | 'error', cause?: unknown) {
    super('the store is unavailable', { cause })
    this.reason = reason
  }
}

/** The store did not confirm a change: it may have been made, may still be made, or never. */
export class MayBeDone extends Error {
  override readonly name = 'MayBeDone'

  constructor(cause: unknown) {
    super('the store has not said whether it is done', { cause })
  }
}

export const mayBeDone = (cause: unknown): never => {
  throw new MayBeDone(cause)
}
