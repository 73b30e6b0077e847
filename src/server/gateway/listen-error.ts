/** The error of a listener that cannot be opened. */

/** `cause` is Node's error. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
  readonly listener: 'public' | 'admin'

  constructor(listener: 'public' | 'admin', cause: unknown) {
    super(`the ${listener} listener cannot be had`, { cause })
    this.listener = listener
  }
}
