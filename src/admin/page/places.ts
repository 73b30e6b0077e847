/** The views of the page; each registers itself before the page begins. */
import type { Child } from './ui.ts'

/** What a view is given; `change` keeps a filter in the address. */
export interface Place {
  readonly id: string
  readonly query: URLSearchParams
  readonly change: (name: string, value: string) => void
}

interface View {
  readonly path: string
  readonly name: string
  /** Where its link stands. */
  readonly at: number
  /** Goes there after `g`. */
  readonly key: string
  readonly Whole: (place: Place) => Child
  /** Shows the thing whose id stands behind the path. */
  readonly One?: (place: Place) => Child
}

export const views: View[] = []
export function register(view: View) {
  views.push(view)
  views.sort((one, other) => one.at - other.at)
}
