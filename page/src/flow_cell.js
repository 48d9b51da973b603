// One cell of the gradient flow: the colour of a norm, or the sign of what is no norm.

import { isFinite } from "./format.js";

/** The colours of the page as it is now. */
export function colours(element) {
  const style = getComputedStyle(element);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    ramp: [0, 1, 2, 3, 4].map((nth) => rgb(get(`--ramp-${nth}`))),
    ink: get("--ink"),
    faint: get("--faint"),
    bad: get("--bad"),
    paper: get("--panel"),
    line: get("--line"),
    warn: get("--warn"),
  };
}

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function ramp(colours, share) {
  const at = Math.min(3.9999, share * 4),
    low = Math.floor(at),
    part = at - low;
  const mixed = colours.ramp[low].map((value, nth) => Math.round(value + part * (colours.ramp[low + 1][nth] - value)));
  return `rgb(${mixed.join(",")})`;
}

/** One cell. The signs are drawn so that they differ without colour, and still do when cells are narrow. */
export function cell(context, x, width, height, [state, norm, , edited], colours, scale) {
  const gap = width > 5 ? 1 : 0,
    wide = width - gap,
    tall = height - 2,
    centre = x + wide / 2,
    half = 1 + tall / 2;
  const r = Math.min(3.2, wide / 2.6);
  context.lineWidth = Math.min(1.4, Math.max(0.8, wide / 4));
  if ((state === "ok" || state === "frozen") && isFinite(norm) && norm > 0) {
    context.fillStyle = ramp(colours, scale(norm));
    context.fillRect(x, 1, wide, tall);
  } else {
    context.fillStyle = state === "nan" ? colours.bad : colours.paper;
    context.fillRect(x, 1, wide, tall);
    if (wide > 4 && state !== "nan") {
      context.strokeStyle = colours.line;
      context.strokeRect(x + 0.5, 1.5, wide - 1, tall - 1);
    }
  }
  context.strokeStyle = colours.ink;
  context.beginPath();
  if (state === "zero") context.arc(centre, half, r, 0, 2 * Math.PI);
  else if (state === "none") {
    context.moveTo(x + wide * 0.2, half);
    context.lineTo(x + wide * 0.8, half);
  } else if (state === "nan") {
    context.strokeStyle = colours.paper;
    context.moveTo(centre - r, half - r);
    context.lineTo(centre + r, half + r);
    context.moveTo(centre + r, half - r);
    context.lineTo(centre - r, half + r);
  } else if (state === "frozen") {
    context.strokeStyle = colours.faint;
    for (let at = 4; at < tall + wide; at += 5) {
      context.moveTo(x + Math.max(0, at - tall), 1 + Math.min(at, tall));
      context.lineTo(x + Math.min(at, wide), 1 + Math.max(0, at - wide));
    }
  }
  context.stroke();
  if (edited && wide > 3) {
    context.fillStyle = colours.ink;
    context.beginPath();
    context.moveTo(x + wide, 1);
    context.lineTo(x + wide, 1 + Math.min(7, wide));
    context.lineTo(x + wide - Math.min(7, wide), 1);
    context.fill();
  }
}
