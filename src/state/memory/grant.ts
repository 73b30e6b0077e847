/**
 * Decides how many tokens a call is granted, in both windows or in neither: at least `need` while so many are left, and up to
 * `want` within an equal share of what is left.
 */
export function grant(ask: {
  need: number
  want: number
  minuteLeft: number
  dayLeft: number
  minuteFree: number
  dayFree: number
  shares: number
}): { minute: number; day: number } {
  if (ask.want <= 0) return { minute: 0, day: 0 }
  const wished = (left: number): number => {
    const share = Math.min(ask.want, Math.floor(left / ask.shares))
    return Math.max(0, Math.min(Math.max(ask.need, share), left))
  }
  // Day tokens in hand may outnumber minute tokens, which end with the minute: only the difference is taken.
  // A lowered limit acts on day tokens in hand too.
  const dayAtMost = ask.dayFree + (ask.dayLeft < 0 ? ask.dayLeft : wished(ask.dayLeft))
  const minute = Math.max(0, Math.min(wished(ask.minuteLeft), dayAtMost - ask.minuteFree))
  // Minute tokens in hand may outnumber day tokens too, when the minute began while a call was under way.
  return { minute, day: Math.max(0, Math.min(ask.minuteFree + minute, dayAtMost) - ask.dayFree) }
}
