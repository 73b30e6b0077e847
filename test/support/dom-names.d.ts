/** Names of the DOM in the types of playwright-core; here no test touches a page's objects but by text. */
interface Node {}
interface HTMLElement {}
interface SVGElement {}
interface HTMLElementTagNameMap {}
