/** The fault of a store that cannot be asked, whichever store it is. */

/** The store is away or of no use; never a statement about quota. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
  readonly reason: 'timeout' | 'error'

  constructor(reason: 'timeout' | 'error', cause?: unknown) {
    super('the store is unavailable', { cause })
    this.reason = reason
  }
}
